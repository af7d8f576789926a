"""A topic's events as text for people."""

import json
import re
from collections.abc import Mapping
from typing import Any

import click

from gateway.cli.accounts import Accounts, seconds
from gateway.errors import SnapshotError
from gateway.mirror import Mirror
from gateway.reader import Update

__all__ = ["Transcript"]

SHOWN = 2000
"""Characters of a tool's arguments or result that are shown."""

# Events come from outside: what they say must not steer the terminal (ECMA-48 control characters).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

_QUIET = {"context", "turn_start", "turn_end", "step_start", "step_end", "request_header"}
_ENDS = {
    "agent_complete": ("completed", "green"),
    "agent_error": ("failed", "red"),
    "agent_cancelled": ("cancelled", "yellow"),
    "agent_lost": ("lost", "red"),
}


class Transcript:
    """Turns updates into text; deltas grow in place, everything else gets lines of its own."""

    def __init__(self) -> None:
        self._open: tuple[str, ...] | None = None
        """What the unfinished line belongs to: delta type, message, call index."""
        self._streamed: set[tuple[str, str]] = set()
        """Messages (and kinds of theirs) whose deltas were shown, until they end."""
        self._calls: dict[str, str] = {}
        """By id the arguments of the tool calls that were shown, until a run ends."""
        self._growing: dict[tuple[str, str], str] = {}
        """By message and index the ids of the calls whose deltas are being shown."""
        self._named: dict[tuple[str, str], str] = {}
        """Likewise their names."""
        self._accounts = Accounts()

    def show(self, update: Update) -> str:
        """Give the text of an update; it may end in the middle of a line."""
        if update.snapshot:
            return self.end() + self._snapshot(update)
        event = update.data
        kind = str(event.get("type") or "")
        message = str(event.get("message") or "")
        if kind in {"agent_delta", "agent_thinking"}:
            self._streamed.add((message, kind))
            return self._delta((kind, message), _clean(event.get("text")), dim=kind == "agent_thinking")
        if kind == "tool_call_delta":
            index = str(event.get("index"))
            self._streamed.add((message, kind))
            self._grow((message, index), event)
            return self._delta_of_call((kind, message, index), event)
        text = self._event(kind, message, event)
        return self.end() + text + "\n" if text else self.end() if kind == "assistant_message" else ""

    def end(self) -> str:
        """Give what ends an unfinished line."""
        if self._open is None:
            return ""
        self._open = None
        return "\n"

    def _delta(self, key: tuple[str, ...], text: str, *, dim: bool, label: str = "") -> str:
        start = "" if self._open == key else self.end()
        self._open = key
        return start + label + (click.style(text, dim=True) if dim and text else text)

    def _delta_of_call(self, key: tuple[str, ...], event: Mapping[str, Any]) -> str:
        name = _clean(event.get("name"))
        if name:
            self._named[key[1], key[2]] = name
        elif self._open != key:  # it goes on after something else: say again which one this is
            name = self._named.get((key[1], key[2]), "")
        label = _called(name) if name else ""
        return self._delta(key, _clean(event.get("text")), label=label, dim=True)

    def _grow(self, place: tuple[str, str], event: Mapping[str, Any]) -> None:
        if event.get("id"):
            self._growing[place] = str(event["id"])
        call = self._growing.get(place)
        if call is not None:
            self._calls[call] = self._calls.get(call, "") + str(event.get("text") or "")

    def _event(self, kind: str, message: str, event: Mapping[str, Any]) -> str:
        match kind:
            case "agent_start":
                self._accounts.start(event)
                agent, model = _clean(event.get("agent")), _clean(event.get("model"))
                return _rule(" ".join(filter(None, ("run", _run(event), agent, f"({model})" if model else ""))))
            case "agent_complete" | "agent_error" | "agent_cancelled" | "agent_lost":
                self._calls.clear()
                self._growing.clear()
                self._named.clear()
                word, end_colour = _ENDS[kind]
                why = _clean(event.get("error") or event.get("reason"))
                told = "".join((f"run {_run(event)} {word}", self._accounts.end(event), f": {why}" if why else ""))
                return _rule(told, fg=end_colour)
            case "usage":
                self._accounts.use(event)
                return ""
            case "assistant_message":
                return self._assistant(message, event)
            case "user_message" | "system_message" | "custom_message":
                role = _clean(event.get("role")) or kind.partition("_")[0]
                return _said(role, _content(event.get("content")))
            case "tool_call":
                if self._knows(event.get("id"), event):
                    return ""
                where = " (at the provider)" if event.get("server") else ""
                return click.style(f"⚙ {_clean(event.get('name'))}{where} ", fg="cyan") + _short(event.get("arguments"))
            case "tool_result":
                failed = bool(_metadata(event).get("error"))
                name = click.style(f"= {_clean(event.get('name'))} ", fg="red" if failed else "cyan")
                took = _metadata(event).get("duration_ms")
                after = click.style(f" ({seconds(took)})", dim=True) if isinstance(took, int | float) else ""
                return name + _short(event.get("content")) + after
            case "log":
                level = _clean(event.get("level")) or "info"
                colour = {"warning": "yellow", "error": "red"}.get(level)
                return click.style(f"[{level}] {_clean(event.get('message'))}", fg=colour, dim=colour is None)
            case "progress":
                fraction = event.get("fraction")
                done = f"{fraction:.0%}" if isinstance(fraction, int | float) else ""
                return click.style(f"… {_clean(event.get('text')) or done}", dim=True)
            case "approval_required":
                known = self._knows(event.get("tool_call_id"), event)
                asked = f"? {_clean(event.get('name'))} asks for approval"
                return click.style(asked, fg="yellow") + ("" if known else f" {_short(event.get('arguments'))}")
            case "approval_decided":
                by = _clean(event.get("by"))
                return click.style(f"! {_clean(event.get('decision'))}{f' by {by}' if by else ''}", fg="yellow")
            case "message_queued" | "message_edited":
                word = "waiting" if kind == "message_queued" else "changed, waiting"
                return click.style(f"({word}) {_content(event.get('content'))}", dim=True)
            case "message_taken" | "message_withdrawn" | "message_discarded":
                return "" if kind == "message_taken" else click.style(f"({kind.partition('_')[2]})", dim=True)
            case "cancel_requested":
                return click.style("stop requested", fg="yellow")
            case "cleared":
                return _rule("the context was cleared")
            case _ if kind in _QUIET:
                return ""
        return click.style(f"{_clean(kind) or 'event'} ", dim=True) + _clean(_compact(event))

    def _assistant(self, message: str, event: Mapping[str, Any]) -> str:
        streamed = {kind for streamed_message, kind in self._streamed if streamed_message == message}
        self._streamed = {one for one in self._streamed if one[0] != message}
        lines = []
        if event.get("thinking") and "agent_thinking" not in streamed:
            lines.append(click.style(_clean(event["thinking"]), dim=True))
        content = _content(event.get("content"))
        if content and "agent_delta" not in streamed:
            lines.append(content)
        self._growing = {place: call for place, call in self._growing.items() if place[0] != message}
        self._named = {place: name for place, name in self._named.items() if place[0] != message}
        calls = self._noted(event.get("tool_calls"))
        if "tool_call_delta" not in streamed:
            lines += map(_call, calls)
        if _metadata(event).get("interrupted"):
            lines.append(click.style("(interrupted)", fg="yellow"))
        return "\n".join(lines)

    def _noted(self, calls: Any) -> list[Mapping[str, Any]]:
        """Remember calls that are shown; gives those that are some."""
        found = [call for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
        self._calls.update({str(call["id"]): _content(call.get("arguments")) for call in found if call.get("id")})
        return found

    def _knows(self, id: Any, event: Mapping[str, Any]) -> bool:
        """Whether this call was shown, and with these arguments: people may have edited them."""
        return self._calls.get(str(id)) == _content(event.get("arguments"))

    def _snapshot(self, update: Update) -> str:
        lines = [_rule(f"the state at {update.position}")]
        try:
            messages = Mirror.restore(update.data).messages()
        except SnapshotError as error:
            return click.style(f"{error}\n", fg="red")
        for message in messages:
            if message.get("content"):
                lines.append(_said(_clean(message.get("role")), _content(message["content"])))
            lines += map(_call, self._noted(message.get("tool_calls")))
        lines += [entry["text"] for entry in update.data["mirror"].get("open", ()) if entry.get("text")]
        return "\n".join(lines) + "\n"


def _said(role: str, content: str) -> str:
    colour = {"user": "green", "tool": "cyan"}.get(role)
    return click.style(f"{role}: ", fg=colour, bold=True) + content


def _call(call: Mapping[str, Any]) -> str:
    return _called(_clean(call.get("name"))) + click.style(_short(call.get("arguments")), dim=True)


def _called(name: str) -> str:
    return click.style(f"→ {name} ", fg="cyan")


def _rule(text: str, *, fg: str | None = None) -> str:
    return click.style(f"── {text} ──", fg=fg, bold=fg is not None, dim=fg is None)


def _metadata(event: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = event.get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _run(event: Mapping[str, Any]) -> str:
    return _clean(event.get("run"))[:8]


def _content(content: Any) -> str:
    if isinstance(content, list):
        texts = (part.get("text") or f"[{part.get('type')}]" for part in content if isinstance(part, Mapping))
        return _clean("\n".join(map(str, texts)))
    return _clean(content)


def _short(value: Any) -> str:
    text = _content(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text) - SHOWN} characters more)"


def _compact(event: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in event.items() if key not in {"type", "at", "run"}}
    return json.dumps(rest, ensure_ascii=False, separators=(",", ":")) if rest else ""


def _clean(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
