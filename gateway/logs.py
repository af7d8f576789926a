"""Log lines of a server process: for people, or one JSON object each; without secrets."""

import json
import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from gateway.settings import SECRETS, Settings

__all__ = ["FIELDS", "JsonLines", "PrettyLines", "log_config", "without_secrets"]

FIELDS = ("client", "user", "topic", "run")
"""What a line may be about; given as ``extra`` to a logger."""

SHORTEST = 8
"""Characters from which on a secret is looked for: what is shorter turns up in honest words."""

_QUERY = re.compile(r"(?<=[\w/])\?[^\s\"']+")
_PASSWORD = re.compile(r"(://)[^/\s@]*@")
_TOKEN = re.compile(r"\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*")


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Cut out of a text what may be secret: queries and passwords of addresses, tokens, and these secrets."""
    text = _TOKEN.sub("…", _PASSWORD.sub(r"\1…@", _QUERY.sub("?…", text)))
    for secret in secrets:
        text = text.replace(secret, "…")
    return text


class PrettyLines(logging.Formatter):
    """Lines for people.

    Args:
        secrets: Texts that no line may have in it.

    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Give a line, its fields behind the message."""
        line = super().format(record)
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        head, newline, traceback = line.partition("\n")
        return without_secrets(head + fields + newline + traceback, self._secrets)


class JsonLines(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, fields, perhaps ``exception``.

    Args:
        secrets: Texts that no line may have in it.

    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Give a line."""
        at = datetime.fromtimestamp(record.created, UTC)
        line = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        clean = {name: without_secrets(value, self._secrets) for name, value in line.items()}
        return json.dumps(clean, ensure_ascii=False, separators=(",", ":"))


def log_config(settings: Settings) -> dict[str, Any]:
    """Give the configuration of the logs for ``logging.config.dictConfig``, the server's own loggers included."""
    form = "JsonLines" if settings.log_format == "json" else "PrettyLines"
    level = settings.log_level.upper()
    others = {"DEBUG": "INFO", "INFO": "WARNING"}.get(level, level)
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": f"gateway.logs.{form}", "secrets": _secrets(settings)}},
        "handlers": {
            "stderr": {"class": "logging.StreamHandler", "stream": "ext://sys.stderr", "formatter": "lines"},
        },
        "root": {"level": others, "handlers": ["stderr"]},
        "loggers": {
            "gateway": {"level": level},
            # Whatever it was before: its lines are ours.
            **{name: {"level": others, "handlers": [], "propagate": True} for name in ("uvicorn", "uvicorn.error")},
        },
    }


def _fields(record: logging.LogRecord) -> dict[str, str]:
    found = {name: getattr(record, name, None) for name in FIELDS}
    return {name: str(value) for name, value in found.items() if value}


def _secrets(settings: Settings) -> list[str]:
    """List the settings' secrets as they might be written, the longest first."""
    values = msgspec.structs.asdict(settings)
    found = {part.strip() for name in SECRETS - {"redis_url"} for part in values[name].split(",")}
    password = urlsplit(settings.redis_url).password
    if password:
        found |= {password, quote(password, safe="")}
    return sorted((secret for secret in found if len(secret) >= SHORTEST), key=len, reverse=True)
