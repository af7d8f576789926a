"""Whatever a topic holds and from wherever it is joined, a dialect speaks in that dialect's order."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.codec import encode_json
from gateway.dialects import DIALECTS, Translator
from gateway.merge import merge
from gateway.mirror import Mirror
from gateway.types import Publication
from tests.event_strategies import events, numbered, sensible_events

Spoken = list[dict[str, Any]]


def check_ag_ui(spoken: Spoken) -> None:
    """As the verifier of its client: what grows was started and not ended, and a run comes to its end once."""
    running: dict[str, set[str]] = {"TEXT_MESSAGE": set(), "TOOL_CALL": set(), "REASONING_MESSAGE": set()}
    for place, event in enumerate(spoken):
        kind = event["type"]
        assert (kind == "RUN_STARTED") == (place == 0)
        if kind in {"RUN_FINISHED", "RUN_ERROR"}:
            assert place == len(spoken) - 1
            assert not any(running.values())
        family, _, what = kind.rpartition("_")
        if family not in running or what == "RESULT":
            continue
        name: str = event.get("toolCallId") or event["messageId"]
        if what == "START":
            assert name not in running[family]
            running[family].add(name)
        else:
            assert name in running[family], event
            if what == "END":
                running[family].discard(name)


def check_ai_sdk(spoken: Spoken) -> None:
    """As its client reads it: parts grow between their start and end, tools' outputs follow their inputs."""
    texts, tools = set(), set()
    for event in spoken:
        kind = event["type"]
        if kind in {"text-start", "reasoning-start"}:
            assert (kind[0], event["id"]) not in texts
            texts.add((kind[0], event["id"]))
        elif kind in {"text-delta", "text-end", "reasoning-delta", "reasoning-end"}:
            assert (kind[0], event["id"]) in texts
            if kind.endswith("end"):
                texts.discard((kind[0], event["id"]))
        elif kind == "tool-input-start":
            assert event["toolCallId"] not in tools
            tools.add(event["toolCallId"])
        elif kind.startswith("tool-"):
            assert event["toolCallId"] in tools, event


def check_openai(spoken: Spoken) -> None:
    """As its client accumulates: items are added at the end, and deltas are about those that are there."""
    added = 0
    numbers = [event["sequence_number"] for event in spoken]
    assert numbers == sorted(set(numbers))
    for place, event in enumerate(spoken):
        assert (event["type"] == "response.created") == (place == 0)
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == added
            added += 1
        elif "output_index" in event:
            assert event["output_index"] < added


CHECKS = {"ag-ui": check_ag_ui, "ai-sdk": check_ai_sdk, "openai-responses": check_openai}


def told(translator: Translator, publications: Iterable[Publication]) -> Spoken:
    return [
        event
        for each in publications
        for event in translator.take(each.data, first=each.first or each.offset, last=each.offset)
    ]


def growth(spoken: Spoken) -> dict[tuple[str, str], str]:
    """Join all deltas by what they are about."""
    found: dict[tuple[str, str], str] = {}
    for event in spoken:
        piece = event.get("inputTextDelta", event.get("delta"))
        if piece is not None:
            about = event.get("toolCallId") or event.get("messageId") or event.get("item_id") or event.get("id") or ""
            found[event["type"], about] = found.get((event["type"], about), "") + piece
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=events(), data=st.data())
def test_any_history_from_any_point_is_spoken_in_order(
    dialect: str, events: list[dict[str, Any]], data: st.DataObject
) -> None:
    publications = numbered(events)
    cut = data.draw(st.integers(0, len(publications)))
    mirror = Mirror("t", "epoch")
    for each in publications[:cut]:
        mirror.apply(each)
    snapshot = msgspec.json.decode(encode_json(mirror.snapshot()))
    translator = Translator(DIALECTS[dialect], "t")
    spoken = translator.join(snapshot) + told(translator, publications[cut:])
    encode_json(spoken)
    if spoken:
        CHECKS[dialect](spoken)
    whole = told(Translator(DIALECTS[dialect], "t"), publications)
    if whole:
        CHECKS[dialect](whole)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(events=sensible_events())
def test_merged_deltas_say_the_same(dialect: str, events: list[dict[str, Any]]) -> None:
    publications = numbered(events)
    one, other = Translator(DIALECTS[dialect], "t"), Translator(DIALECTS[dialect], "t")
    assert growth(told(one, publications)) == growth(told(other, merge(publications)))
    assert one.ended == other.ended
