"""The command line."""

from gateway.cli.root import main

__all__ = ["main"]
