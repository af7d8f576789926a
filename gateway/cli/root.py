"""The command ``gateway``: finds the commands, and turns what goes wrong into one line and an exit code."""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from gateway import __version__
from gateway.cli.interrupt import INTERRUPTED
from gateway.errors import GatewayError

__all__ = ["run"]

COMMANDS = (
    "serve",
    "demo",
    "agent",
    "replay",
    "tail",
    "publish",
    "send",
    "edit",
    "withdraw",
    "cancel",
    "decide",
    "topics",
    "token",
    "export",
    "delete",
    "doctor",
)

USAGE = 2
BROKEN_PIPE = 141  # 128 + SIGPIPE


class Commands(click.Group):
    """The commands, each imported when it is called for: `tail` needs no web server, `serve` no provider."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give them in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"gateway.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; Ctrl-C ends it without a word."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return INTERRUPTED


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(__version__, prog_name="gateway")
@click.pass_context
def root(context: click.Context) -> None:
    """Show AI agent runs live: Redis pub/sub in, websockets out."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code: 0 done, 1 failed, 2 bad usage, 130 interrupted."""
    try:
        code = root.main(list(arguments), prog_name="gateway", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output has gone, which is its right; the interpreter's own flush at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "gateway"
        _say(f"{path}: {error.format_message()} (see {path} --help)")
        return USAGE
    except click.ClickException as error:
        _say(f"gateway: {error.format_message()}")
        return error.exit_code
    except click.Abort:
        # A question met Ctrl-C, or an input that has ended.
        _say("\ngateway: not answered: nothing was done")
        return 1
    except GatewayError as error:
        _say(f"gateway: {error}")
        return 1
    return code if isinstance(code, int) else 0


def _say(text: str) -> None:
    click.echo(text, err=True)
