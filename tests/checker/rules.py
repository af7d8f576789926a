"""The rules of the scripts, each of which can be taken out to see that it is missed."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from gateway.broker.scripts import SCRIPTS

__all__ = ["RULES", "Rule", "without"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule looks like in the scripts, and the scripts without it.

    Attributes:
        name: What it does.
        text: It, as it stands in one or several scripts.
        instead: What stands there without it.
        kind: The worlds that miss it.

    """

    name: str
    text: str
    instead: str = ""
    kind: str = "authors"


RULES = (
    Rule(
        name="a known append is answered as the first time",
        text="if known_mark == mark then return {'dup', place, s.people} end",
    ),
    Rule(
        name="the short way is not for a known append",
        text="if mark == last_mark or tonumber(ARGV[2]) > tonumber(top) then return '' end",
        instead="if tonumber(ARGV[2]) > tonumber(top) then return '' end",
    ),
    Rule(
        name="another server opens an epoch",
        text="(s.server == ARGV[1] and not (epoch == s.epoch and offset > s.top))",
        instead="not (epoch == s.epoch and offset > s.top)",
    ),
    Rule(
        name="an epoch remembers the one before",
        text="local lineage = {s.epoch .. ':' .. s.top}",
        instead="local lineage = {}",
    ),
    Rule(
        name="a lineage says how far each epoch counts",
        text="if name == epoch then return offset <= tonumber(last) end",
        instead="if name == epoch then return true end",
    ),
    Rule(
        name="a position in no lineage does not go on",
        text="  return false\nend\n\n-- The answer to a writer",
        instead="  return true\nend\n\n-- The answer to a writer",
    ),
    Rule(
        name="a writer whose position does not go on is told to restore",
        text="if not continues(s, epoch, offset) then return restore(s, writer) end",
    ),
    Rule(
        name="only the holder of the lease writes",
        text="return {'fenced', s.epoch, s.top, s.run}\nend",
        instead="end",
        kind="late",
    ),
    Rule(
        name="a held lease is not taken",
        text="return {'busy', s.run, s.deadline, s.epoch, s.top}",
    ),
    Rule(
        name="who takes a topic has read it to the last end",
        text="if s.run == '' and offset < tonumber(call('HGET', state, 'free') or 0)",
        instead="if false",
    ),
    Rule(
        name="a run that has ended stays so",
        text="if place then return {'ended', place} end\nend",
        instead="end",
    ),
    Rule(
        name="a live lease is not lost",
        text="if s.deadline > now then return {'alive', s.deadline} end",
    ),
    Rule(
        name="the log moves on from where it stands",
        text="if log_before ~= '' and s.log ~= log_before .. ' ' .. ARGV[12] then",
        instead="if false then",
    ),
    Rule(
        name="conditions hold",
        text="if not holds then return {'cond', field, found, s.epoch, s.top} end",
    ),
    Rule(
        name="a history with a part gone is begun anew",
        text="if not broken then return s end",
        instead="if true then return s end",
    ),
    Rule(
        name="a lost snapshot is a part gone",
        text="or (s.floor > 0 and redis.call('EXISTS', KEYS[4]) == 0)",
    ),
    Rule(
        name="a trim raises the floor",
        text="  s.floor = offset\n",
    ),
    Rule(
        name="a reader below the floor begins with the snapshot",
        text="local complete = continues(s, epoch, offset) and offset >= s.floor",
        instead="local complete = continues(s, epoch, offset)",
    ),
    Rule(
        name="a snapshot that is not the beginning of the history is refused",
        text="if not continues(s, epoch, offset) or offset < s.floor then",
        instead="if offset < s.floor then",
    ),
    Rule(
        name="deltas go when the last message has ended",
        text="if s.open == ' ' then",
        instead="if kind == 'e' then",
    ),
    Rule(
        name="a page ends where both streams are known",
        text="for k = #deltas, j + 1, -1 do deltas[k] = nil end",
    ),
    Rule(
        name="the lease ends with the run",
        text="if ends then\n  s.run = ''\n",
        instead="if ends then\n",
    ),
    Rule(
        name="a renewal tells of a rollback",
        text="if not continues(s, epoch, offset) then return restore(s, run) end",
        kind="runs",
    ),
    Rule(
        name="the names of a deleted history stay where the server lost all of it",
        text="if not again then return {'none'} end",
        instead="if true then return {'none'} end",
        kind="erased",
    ),
    Rule(
        name="a run of a deleted history is told so",
        text="if run ~= '' and deleted(s, epoch, run) then return {'deleted', s.epoch, s.top} end",
        kind="erased",
    ),
)


@contextmanager
def without(rule: Rule) -> Iterator[None]:
    """Take a rule out of the scripts."""
    before = [(script, script.source, script.sha) for script in SCRIPTS]
    found = False
    try:
        for script, source, _ in before:
            text = source.decode()
            found = found or rule.text in text
            script.source = text.replace(rule.text, rule.instead).encode()
            script.sha = hashlib.sha1(script.source, usedforsecurity=False).hexdigest()
        assert found, f"no script has the rule {rule.text!r} any more"
        yield
    finally:
        for script, source, sha in before:
            script.source, script.sha = source, sha
