"""What nobody sends by mistake."""

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["JSON", "KEYS", "MUTATIONS", "NAMES", "NUMBERS", "TEXTS", "dumps", "mutated"]

_WORDS = [
    "",
    " ",
    "\x00",
    "\ud800",
    "\udfff\ud800",
    "\ufeff",
    "\u2028",
    "\r\n",
    "\n",
    '"',
    "\\",
    "'",
    "`",
    "../../etc/passwd",
    "%00",
    "%s%n",
    "{}",
    "{0}",
    "*",
    "__proto__",
    "constructor",
    "NaN",
    "null",
    "\u202eevil",
    "e\u0301" * 40,
    "👩‍🚀",
    "a" * 300,
    "x" * 5000,
    "; FLUSHALL",
    "\r\n*1\r\n$8\r\nFLUSHALL\r\n",
    "return redis.call('FLUSHALL')",
    "<script>alert(1)</script>",
    "0x10",
    "1e400",
    "٣",
]
TEXTS: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(_WORDS),
    st.text(max_size=20),
    st.text(st.characters(categories=["Cs", "Cc", "Cf", "Lo"]), max_size=8),
)
NUMBERS: st.SearchStrategy[int | float] = st.one_of(
    st.integers(-3, 12),
    st.sampled_from(
        [2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**53), -(2**63) - 1, 10**30, 10**400]
    ),
    st.floats(),
)
KEYS: st.SearchStrategy[str] = st.one_of(
    TEXTS, st.sampled_from(["type", "id", "channel", "text", "offset", "seq", "run"])
)


def _deep(depth: int, kind: str) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value] if kind == "list" else {"a": value}
    return value


JSON: st.SearchStrategy[Any] = st.one_of(
    st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXTS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=8,
    ),
    st.builds(_deep, st.sampled_from([5, 62, 63, 64, 65, 500]), st.sampled_from(["list", "dict"])),
)
NAMES: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(["a", "b", "chat:1", "chat:1/run", "a@b"]),
    st.sampled_from(["a b", "a\n", "{a}", "a}b", "", "x" * 200, "x" * 201, "a\x00", "é", "..", "/", "//", "a*"]),
    TEXTS,
)

MUTATIONS = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from(["flip", "cut", "insert", "double"]),
        st.sampled_from(
            [
                b"\x00",
                b"\xff",
                b"\xed\xa0\x80",
                b"\xc0\x80",
                b'"',
                b"{",
                b"}",
                b"[" * 600,
                b"[" * 6000,
                b'{"a":' * 2000,
                b"9" * 400,
                b"9" * 5000,
                b"\\u",
                b"\\ud800",
                b"\n",
                b",",
                b"1e999",
            ]
        ),
    ),
    max_size=3,
)
"""Places, what to do there, and with what."""


def dumps(value: Any) -> bytes:
    """Write JSON as a careless client does: NaN, halves of surrogates and numbers of any length included."""
    return json.dumps(value).encode()


def mutated(data: bytes, mutations: list[tuple[int, str, bytes]]) -> bytes:
    """Break bytes in a few places."""
    for place, kind, piece in mutations:
        at = place % (len(data) + 1)
        if kind == "flip" and at < len(data):
            data = data[:at] + bytes((data[at] ^ (1 << (place % 8)),)) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at] + data[at + place % 7 :]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "double":
            data = data[:at] + data[at : at + 20] + data[at:]
    return data
