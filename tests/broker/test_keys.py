"""Names in Redis: a part of the stored format."""

import pytest

from gateway.broker.keys import SHARDS, Keys, shard_of
from gateway.types import Topic


def test_of_gives_six_keys_with_one_hash_tag() -> None:
    state, *others = Keys("gw").of(Topic("chat:42"))
    assert state == "gw:{chat:42}"
    assert others == [f"gw:{{chat:42}}:{name}" for name in ("events", "open", "snap", "archive", "blobs")]


def test_channels_and_indexes() -> None:
    keys = Keys("gw")
    assert keys.channel(Topic("a")) == "gw:{a}"
    assert keys.control_channel(Topic("a")) == "gw:{a}:ctl"
    assert (keys.topics(3), keys.due(63)) == ("gw:{3}:topics", "gw:{63}:due")


def test_shard_of_stays_the_same() -> None:
    assert [shard_of(Topic(name)) for name in ("chat:42", "a", "demo")] == [54, 3, 32]
    assert {shard_of(Topic(f"t:{number}")) for number in range(2000)} == set(range(SHARDS))


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b", "x" * 65])
def test_prefix_that_would_break_the_names(prefix: str) -> None:
    with pytest.raises(ValueError, match="key prefix"):
        Keys(prefix)
