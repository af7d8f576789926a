"""One connection's state: what came in, what is allowed when, and when to hang up — pure."""

from typing import Literal

from gateway.errors import CommandError, DisconnectCode, DisconnectError, ErrorCode
from gateway.frames import Command, decode_frame
from gateway.limits import Allowance
from gateway.types import Topic, parse_topic

__all__ = ["MESSAGE_TOO_BIG", "UNSUPPORTED_TEXT", "Session", "topic_of"]

MESSAGE_TOO_BIG = 1009
"""Close code for a frame above the limit (RFC 6455, 7.4.1)."""

UNSUPPORTED_TEXT = 1007
"""Close code for a text frame that is no UTF-8 (RFC 6455, 7.4.1)."""


class Session:
    """The state machine of one connection: new, then connected, then closed."""

    __slots__ = ("_allowance", "max_frame", "max_topics", "state", "topics")

    def __init__(self, *, max_frame: int, max_topics: int, allowance: Allowance) -> None:
        """Begin with nothing heard.

        Args:
            max_frame: Bytes of the largest frame that is taken.
            max_topics: Topics that may be subscribed to at a time.
            allowance: Commands that may be sent; a frame without any counts as one.

        """
        self.state: Literal["new", "connected", "closed"] = "new"
        self.max_frame: int = max_frame
        self.max_topics: int = max_topics
        self.topics: set[Topic] = set()  # subscribed, or about to be
        self._allowance = allowance

    def receive(self, data: bytes, *, text: bool, now: float) -> list[Command]:
        """Take one message and give the commands that may run, in order; those of too many a second are refused.

        Args:
            data: The message.
            text: Whether it is text.
            now: The time, in seconds of a clock that only goes on.

        Raises:
            DisconnectError: The connection has to be closed, with this code. The commands of the message before
                the one that broke the rules are dropped with it.

        """
        if self.state == "closed":
            return []
        if not text:
            raise self._close(DisconnectCode.BAD_REQUEST, "binary frames are not spoken here")
        if len(data) > self.max_frame:
            raise self._close(MESSAGE_TOO_BIG, f"a frame may have {self.max_frame} bytes, this one has {len(data)}")
        try:
            data.decode()
            commands = decode_frame(data)
        except UnicodeDecodeError as error:
            raise self._close(UNSUPPORTED_TEXT, "a text frame is no UTF-8") from error
        except DisconnectError:
            self.state = "closed"
            raise
        for command in commands:
            if command.method == "connect":
                if self.state != "new":
                    raise self._close(DisconnectCode.BAD_REQUEST, "connect came a second time")
                if command.refusal is not None:
                    raise self._close(DisconnectCode.BAD_REQUEST, command.refusal.message)
                self.state = "connected"
            elif self.state == "new":
                raise self._close(DisconnectCode.BAD_REQUEST, f"expected connect first, got {command.method[:32]!r}")
        if not commands and not self._allowance.take(now):
            raise self._close(DisconnectCode.BAD_REQUEST, "too many frames")
        return [command if self._allowance.take(now) else _too_many(command) for command in commands]

    def refused(self) -> None:
        """Note that the connect command came to nothing: another one may come."""
        if self.state == "connected":
            self.state = "new"

    def subscribe(self, channel: str) -> Topic:
        """Reserve a subscription; `release` gives it back where nothing comes of it.

        Raises:
            CommandError: 102 no topic name, 105 subscribed already, 106 too many topics.

        """
        topic = topic_of(channel)
        if topic in self.topics:
            raise CommandError(ErrorCode.ALREADY_SUBSCRIBED, f"already subscribed to {topic}")
        if len(self.topics) >= self.max_topics:
            raise CommandError(ErrorCode.LIMIT_EXCEEDED, f"one connection may subscribe to {self.max_topics} topics")
        self.topics.add(topic)
        return topic

    def release(self, topic: Topic) -> None:
        """Give a subscription back."""
        self.topics.discard(topic)

    def close(self) -> None:
        """Take nothing more."""
        self.state = "closed"

    def _close(self, code: int, reason: str) -> DisconnectError:
        self.state = "closed"
        return DisconnectError(code, reason)


def _too_many(command: Command) -> Command:
    error = CommandError(ErrorCode.TOO_MANY_REQUESTS, "too many commands; try again later")
    return Command(id=command.id, method=command.method, refusal=error)


def topic_of(channel: str) -> Topic:
    """Check the topic a command names.

    Raises:
        CommandError: 102, it is no topic name.

    """
    try:
        return parse_topic(channel)
    except ValueError as error:
        raise CommandError(ErrorCode.UNKNOWN_TOPIC, str(error)) from error
