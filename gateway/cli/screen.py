"""Text with colours, where they are seen and wanted."""

import os

import click

__all__ = ["echo"]


def echo(text: str) -> None:
    """Write text as it is; without colours where it goes to no terminal, or ``NO_COLOR`` is set (no-color.org)."""
    if text:
        click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
