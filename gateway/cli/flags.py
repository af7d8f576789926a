"""Every setting of a gateway as a flag and a variable."""

from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import click
import msgspec
from click.core import ParameterSource

from gateway.settings import ENV_PREFIX, Settings

__all__ = ["Flag", "settings_flags"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_HINTS = get_type_hints(Settings, include_extras=True)


class Flag(click.Option):
    """An option that may come from a variable too; an error names the one that it came from."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Name what was given; click itself would name both."""
        source = None if ctx is None or self.name is None else ctx.get_parameter_source(self.name)
        if source is ParameterSource.ENVIRONMENT and isinstance(self.envvar, str):
            return f"'{self.envvar}'"
        return " / ".join(f"'{name}'" for name in self.opts)


def settings_flags(*, leave_out: frozenset[str] = frozenset()) -> Callable[[_Command], _Command]:
    """Add a flag for each setting, ``None`` where neither it nor its variable is given.

    Args:
        leave_out: Settings that the command decides itself.

    """

    def decorate(command: _Command) -> _Command:
        defaults = msgspec.structs.asdict(Settings())
        for name, description in reversed(Settings.descriptions().items()):
            if name in leave_out:
                continue
            default = f"  [default: {defaults[name]}]" if defaults[name] != "" else ""
            switch = isinstance(defaults[name], bool)
            command = click.option(
                f"--{name.replace('_', '-')}",
                cls=Flag,
                envvar=ENV_PREFIX + name.upper(),
                show_envvar=True,
                callback=_convert,
                is_flag=switch,
                default=None,
                metavar=None if switch else _metavar(defaults[name]),
                help=f"{_sentence(description)}.{default}",
            )(command)
        return command

    return decorate


def _metavar(default: object) -> str:
    return {int: "INTEGER", float: "NUMBER"}.get(type(default), "TEXT")


def _sentence(description: str) -> str:
    # A scheme such as redis:// keeps its small letter.
    first = description.partition(" ")[0]
    return description if ":" in first else description[:1].upper() + description[1:]


def _convert(_context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    if value is None or parameter.name is None:
        return None
    try:
        return msgspec.convert(value, _HINTS[parameter.name], strict=False)
    except msgspec.ValidationError as error:
        # What it got is text, which is no news.
        expected = str(error).partition(", got ")[0]
        raise click.BadParameter(f"{expected}, got {value!r}") from error
