"""The transcripts of several topics on one screen."""

import click

from gateway.cli.transcript import Transcript
from gateway.reader import Update
from gateway.types import Topic

__all__ = ["Transcripts"]

_COLOURS = ("magenta", "blue", "cyan", "green")


class Transcripts:
    """Turns updates into text, each topic's as its `Transcript` does; lines of named topics say whose they are."""

    def __init__(self) -> None:
        self._transcripts: dict[Topic, Transcript] = {}
        self._labels: dict[Topic, str] = {}
        self._named = 0
        self._last: Topic | None = None
        """Whose text was shown last: the unfinished line, if there is one, is its."""
        self._fresh = True
        """What comes next begins a line."""

    def name(self, topic: Topic, name: str) -> None:
        """Let each line of a topic begin with a name."""
        self._labels[topic] = click.style(f"{name} │ ", fg=_COLOURS[self._named % len(_COLOURS)])
        self._named += 1

    def forget(self, topic: Topic) -> str:
        """Give a topic's last words: nothing more of it will be shown."""
        text = ""
        if self._last == topic:
            text, self._last = self.end(), None
        self._transcripts.pop(topic, None)
        self._labels.pop(topic, None)
        return text

    def show(self, update: Update) -> str:
        """Give the text of an update; it may end in the middle of a line."""
        topic = update.topic
        text = self._transcripts.setdefault(topic, Transcript()).show(update)
        if not text:
            return ""
        before = "" if self._last == topic else self.end()
        self._last = topic
        label = self._labels.get(topic)
        shown = text if label is None else _labelled(text, label, fresh=self._fresh)
        self._fresh = click.unstyle(text).endswith("\n")
        return before + shown

    def end(self) -> str:
        """Give what ends an unfinished line."""
        if self._last is None:
            return ""
        text = self._transcripts[self._last].end()
        self._fresh = self._fresh or bool(text)
        return text


def _labelled(text: str, label: str, *, fresh: bool) -> str:
    """Put a label before each line that is not empty; before the first one only where it is not yet begun."""
    first, *lines = text.split("\n")
    begun = label + first if fresh and first else first
    return "\n".join([begun, *(label + line if click.unstyle(line) else line for line in lines)])
