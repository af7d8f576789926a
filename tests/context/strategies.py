"""Random logs and messages."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from gateway.context.log import BOOKKEEPING_TYPES
from gateway.context.messages import ContentPart, Message, ToolCall

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.none() | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MAPS = st.dictionaries(TEXT, JSON, max_size=3)
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the bounds of a strategy are naive
PARTS = st.builds(
    ContentPart,
    type=st.sampled_from(["text", "thinking", "image_url", "video_url", "image", "file", "other"]),
    text=NAMES,
    url=NAMES,
    data=NAMES | st.binary(max_size=4),
    file_id=NAMES,
    media_type=NAMES,
    filename=NAMES,
    metadata=MAPS,
)
CALLS = st.builds(
    ToolCall,
    id=NAMES,
    name=NAMES,
    arguments=JSON,
    extra=st.dictionaries(TEXT.map("x_{}".format), JSON, max_size=2),
)
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
    content=NAMES | st.lists(PARTS, max_size=3),
    tool_calls=st.none() | st.lists(CALLS, max_size=2),
    tool_call_id=NAMES,
    name=NAMES,
    thinking=NAMES,
    reasoning_details=st.none() | st.lists(JSON, max_size=2),
    metadata=MAPS,
    refs=st.none() | MAPS,
    created_at=TIMES,
)
OPS = st.none() | st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair)))
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["user_message", "assistant_message", "system_message", "custom_message"]), OPS),
    st.tuples(st.just("tool_result"), OPS),
    st.tuples(st.sampled_from(sorted(BOOKKEEPING_TYPES)), st.none()),
    st.tuples(st.just("cleared"), st.none()),
)
"""(type, what it replaces)."""


def event_data(op: tuple[int, int] | None, text: str) -> dict[str, object]:
    return {"content": text} if op is None else {"content": text, "surface_op": ("replace", *op)}
