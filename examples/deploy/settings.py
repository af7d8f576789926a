"""The settings of every command as a page: `python examples/deploy/settings.py > examples/deploy/SETTINGS.md`."""

import re

import click

from gateway.cli.root import root

HEAD = """# Settings

Made from the code by `make settings`; a test holds it to the code. Each is a variable and a flag of the same name:
`GATEWAY_REDIS_URL` is `--redis-url`. A flag goes before its variable, an empty variable counts as absent. Variables
whose flag is a switch take 1 or 0. Secrets belong in variables: everybody on a machine can read a process's flags.
"""
OTHERS = """
Beside them: `OPENAI_API_KEY` and `OPENAI_BASE_URL` (the demo agent's model), `NO_COLOR` (no colours in `tail`),
`XDG_RUNTIME_DIR` (where `serve` notes its address for the other commands), `XDG_DATA_HOME` (where the private Valkey
keeps its data).
"""


def options(command: click.Command) -> dict[str, click.Option]:
    """Give the options that may come from a variable, by the variable."""
    return {
        option.envvar: option
        for option in command.params
        if isinstance(option, click.Option) and isinstance(option.envvar, str)
    }


def row(variable: str, option: click.Option) -> str:
    """Make a row of a table: the variable, its default, what it is."""
    text, _, default = (option.help or "").partition("  [default: ")
    default = default.removesuffix("]")
    if option.show_default and option.default is not None:
        default = str(option.default)
    default = {"": "(empty)", "True": "`1`", "False": "`0`"}.get(default, default)
    if re.fullmatch(r"[-\w.:/]+", default):
        default = f"`{default}`"
    return f"| `{variable}` | {default} | {text.strip().replace('|', chr(92) + '|')} |"


def page() -> str:
    """Make the page."""
    context = click.Context(root)
    commands = {name: command for name in root.list_commands(context) if (command := root.get_command(context, name))}
    serving = options(commands.pop("serve"))
    others: dict[str, click.Option] = {}
    users: dict[str, list[str]] = {}
    for name, command in commands.items():
        for variable, option in options(command).items():
            if name == "doctor" and variable in serving:
                continue  # it takes what `serve` takes
            others.setdefault(variable, option)
            users.setdefault(variable, []).append(name)
    lines = [
        HEAD,
        "## `gateway serve`",
        "",
        "| variable | default | |",
        "|---|---|---|",
        *(row(variable, option) for variable, option in serving.items()),
        "",
        "## The other commands",
        "",
        "`gateway doctor` takes those of `gateway serve` too.",
        "",
        "| variable | default | | read by |",
        "|---|---|---|---|",
        *(f"{row(variable, option)} {', '.join(users[variable])} |" for variable, option in others.items()),
    ]
    return "\n".join(lines) + "\n" + OTHERS


if __name__ == "__main__":
    print(page(), end="")
