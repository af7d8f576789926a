"""Every exception of the package, and the codes that cross the wire.

::

    GatewayError
    ├── EventRefusedError       an event that must not enter a topic
    ├── BrokerError
    │   ├── BrokerUnavailableError   away; trying again can help
    │   └── EmbeddedServerError      no private server could be started
    ├── PublishError            an append that the store refused for good
    │   ├── RunEndedError       the run has its end already
    │   ├── FencedError         another run holds the topic, or this one was declared lost
    │   │   └── TopicDeletedError    somebody deleted the topic
    │   ├── TopicBusyError      another run holds the topic at the start
    │   ├── HistoryConflictError
    │   ├── ConditionError      a condition of an action does not hold
    │   └── ContextTooLargeError
    ├── CommandError            a client's command answered by an error reply (code, temporary)
    ├── DisconnectError         a connection closed with a code (reconnect or not)
    ├── UnreachableError        a gateway that a client cannot talk to
    ├── ProviderError           a model provider answered with an error, or its stream broke off
    ├── SnapshotError           a snapshot that is none
    └── PositionsError          the file in which a bot keeps its positions cannot be used
"""

from enum import IntEnum

from gateway.types import Position

__all__ = [
    "BrokerError",
    "BrokerUnavailableError",
    "CommandError",
    "ConditionError",
    "ContextTooLargeError",
    "DisconnectCode",
    "DisconnectError",
    "EmbeddedServerError",
    "ErrorCode",
    "EventRefusedError",
    "FencedError",
    "GatewayError",
    "HistoryConflictError",
    "PositionsError",
    "ProviderError",
    "PublishError",
    "RunEndedError",
    "SnapshotError",
    "TopicBusyError",
    "TopicDeletedError",
    "UnreachableError",
    "UnsubscribeCode",
]


class ErrorCode(IntEnum):
    """Codes of error replies (PROTOCOL.md 6)."""

    INTERNAL = 100
    UNAUTHORIZED = 101
    UNKNOWN_TOPIC = 102
    PERMISSION_DENIED = 103
    METHOD_NOT_FOUND = 104
    ALREADY_SUBSCRIBED = 105
    LIMIT_EXCEEDED = 106
    BAD_REQUEST = 107
    NOT_AVAILABLE = 108
    TOKEN_EXPIRED = 109
    EXPIRED = 110
    TOO_MANY_REQUESTS = 111
    UNRECOVERABLE_POSITION = 112
    CONFLICT = 409

    @property
    def temporary(self) -> bool:
        """Whether the same command can succeed later."""
        return self in {ErrorCode.INTERNAL, ErrorCode.TOO_MANY_REQUESTS}


class DisconnectCode(IntEnum):
    """Close codes: 3000-3499 and 4000-4499 invite a reconnect, 3500-3999 and 4500-4999 forbid it."""

    CONNECTION_CLOSED = 3000
    SHUTDOWN = 3001
    SERVER_ERROR = 3004
    EXPIRED = 3005
    SLOW = 3008
    FORCE_RECONNECT = 3011
    NO_PONG = 3012
    INVALID_TOKEN = 3500
    BAD_REQUEST = 3501
    STALE = 3502
    FORCE_NO_RECONNECT = 3503
    CONNECTION_LIMIT = 3504
    CHANNEL_LIMIT = 3505
    INAPPROPRIATE_PROTOCOL = 3506
    PERMISSION_DENIED = 3507

    @property
    def reconnect(self) -> bool:
        """Whether a client may come back by itself."""
        return 3000 <= self < 3500 or 4000 <= self < 4500


class UnsubscribeCode(IntEnum):
    """Codes of the unsubscribe push; from 2500 on a client subscribes again by itself."""

    SERVER = 2000
    INSUFFICIENT_STATE = 2500
    EXPIRED = 2501


class GatewayError(Exception):
    """The root of all."""


class EventRefusedError(GatewayError, ValueError):
    """An event broke an entry rule (PROTOCOL.md 4.4); nothing was published."""


class BrokerError(GatewayError):
    """Something about Redis."""


class BrokerUnavailableError(BrokerError):
    """Redis did not answer, or is in no state to; the same call can succeed later.

    Attributes:
        told: Whether people are told anyway, once for all connections: the server as a whole is away.

    """

    def __init__(self, message: str, *, told: bool = False) -> None:
        super().__init__(message)
        self.told = told


class EmbeddedServerError(BrokerError):
    """No private Valkey or Redis could be started."""


class PublishError(GatewayError):
    """The store refused an append for good."""


class RunEndedError(PublishError):
    """The run has its one end already.

    Attributes:
        run: Its id.
        position: Where the first end stands.

    """

    def __init__(self, *, run: str, position: Position) -> None:
        super().__init__(run, position)
        self.run = run
        self.position = position

    def __str__(self) -> str:
        return f"run {self.run} has already ended, at {self.position}; nothing more of it is accepted"


class FencedError(PublishError):
    """The run does not hold its topic any more.

    Attributes:
        run: Its id.
        holder: The run that holds the topic; "" where none does.

    """

    def __init__(self, *, run: str, holder: str) -> None:
        super().__init__(run, holder)
        self.run = run
        self.holder = holder

    def __str__(self) -> str:
        now = f"run {self.holder} holds the topic now" if self.holder else "nobody holds the topic now"
        return f"run {self.run} was replaced or declared lost: {now}"


class TopicDeletedError(FencedError):
    """The topic was deleted while the run held it; nothing more of the run is accepted.

    Attributes:
        topic: The topic.
        run: The run's id.

    """

    def __init__(self, *, topic: str, run: str) -> None:
        super().__init__(run=run, holder="")
        self.args = (topic, run)
        self.topic = topic

    def __str__(self) -> str:
        return f"topic {self.topic} was deleted; run {self.run} has ended with it and writes nothing more"


class TopicBusyError(PublishError):
    """Another run holds the topic.

    Attributes:
        topic: The topic.
        holder: The run that holds it.

    """

    def __init__(self, *, topic: str, holder: str) -> None:
        super().__init__(topic, holder)
        self.topic = topic
        self.holder = holder

    def __str__(self) -> str:
        return f"topic {self.topic} is held by run {self.holder}; a topic has one run at a time"


class HistoryConflictError(PublishError):
    """The topic's log is not the one that this run's context continues.

    Attributes:
        seq: The topic's next log seq.
        expected: The run's next log seq.

    """

    def __init__(self, *, seq: int, expected: int) -> None:
        super().__init__(seq, expected)
        self.seq = seq
        self.expected = expected

    def __str__(self) -> str:
        return (
            f"the topic's log stands at seq {self.seq}, the run's at {self.expected} or with other events; "
            "start from the topic's context, or pass adopt=True to write yours over it"
        )


class ConditionError(PublishError):
    """A condition of an action does not hold.

    Attributes:
        field: The state field it was about.
        value: What the field holds; "" where it is absent.

    """

    def __init__(self, *, field: str, value: str) -> None:
        super().__init__(field, value)
        self.field = field
        self.value = value

    def __str__(self) -> str:
        return f"{self.field} is {self.value!r}" if self.value else f"{self.field} is absent"


class ContextTooLargeError(PublishError):
    """The history reached its bound in bytes; nothing of the append was stored.

    Attributes:
        size: What the history would have held, in bytes.

    """

    def __init__(self, *, size: int) -> None:
        super().__init__(size)
        self.size = size

    def __str__(self) -> str:
        return f"the topic's history reached its bound: it holds {self.size} bytes"


class CommandError(GatewayError):
    """A command is answered by an error reply.

    Attributes:
        code: What went wrong.
        message: A short reason for people: what was expected and what came.
        temporary: Whether the same command can succeed later; None takes the code's own answer.

    """

    def __init__(self, code: ErrorCode | int, message: str, *, temporary: bool | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        own = isinstance(code, ErrorCode) and code.temporary
        self.temporary = own if temporary is None else temporary

    def __str__(self) -> str:
        return f"{int(self.code)}: {self.message}"


class DisconnectError(GatewayError):
    """A connection ends with a code.

    Attributes:
        code: The close code.
        reason: A short reason, at most 123 bytes of UTF-8 (RFC 6455, 5.5).

    """

    def __init__(self, code: DisconnectCode | int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    @property
    def reconnect(self) -> bool:
        """Whether the code invites a reconnect."""
        return 3000 <= self.code < 3500 or 4000 <= self.code < 4500

    def __str__(self) -> str:
        return f"{int(self.code)}: {self.reason}"


class ProviderError(GatewayError):
    """A model provider answered with an error, or its stream broke off.

    Attributes:
        code: The provider's own word for it; "" where it gave none.
        message: The provider's sentence.

    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message, code)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.code else self.message


class UnreachableError(GatewayError, ConnectionError):
    """Nobody answers at a gateway's address, or not as a gateway.

    Attributes:
        url: The address.
        reason: What was found there.
        temporary: Whether the same try can succeed later.

    """

    def __init__(self, *, url: str, reason: str, temporary: bool) -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason
        self.temporary = temporary

    def __str__(self) -> str:
        return f"no gateway answers at {self.url}: {self.reason}"


class PositionsError(GatewayError):
    """The file in which a bot keeps its positions cannot be used.

    Attributes:
        path: The file.
        reason: What is wrong with it.

    """

    def __init__(self, *, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"a bot's positions cannot be kept in {self.path}: {self.reason}"


class SnapshotError(GatewayError, ValueError):
    """A snapshot does not have the form of PROTOCOL.md 5."""
