"""Every recorded stream, through its adapter, equals the independent reading of the file."""

import json
from pathlib import Path

import pytest

from gateway.adapters import PROVIDERS
from gateway.errors import ProviderError
from tests.adapters.sink import RecordingSink
from tests.recordings import fails, lines, read, recordings

FAILURES = {"error", "response.failed"}


@pytest.mark.streams
@pytest.mark.parametrize(("provider", "path"), recordings())
async def test_recording_equals_independent_reading(provider: str, path: Path) -> None:
    sink = RecordingSink()
    adapter = PROVIDERS[provider](sink)
    try:
        for event in lines(path):
            await adapter.feed(event)
        await adapter.finish()
    except ProviderError:
        assert fails(path)
    else:
        assert not fails(path)
    expected = read(provider, path)
    got = [
        (
            message.text,
            message.thinking or "",
            [(call.id, call.name, json.loads(call.arguments)) for call in message.tool_calls or ()],
        )
        for message, *_ in sink.messages
    ]
    assert got == [(turn.text, turn.thinking, turn.calls) for turn in expected]
    totals = [
        {name: getattr(usage, name) for name in expected[0].usage} if expected else {} for usage in sink.usages.values()
    ]
    assert totals == [turn.usage for turn in expected]


@pytest.mark.streams
@pytest.mark.parametrize(("provider", "path"), recordings())
async def test_deltas_add_up_to_the_message(provider: str, path: Path) -> None:
    sink = RecordingSink()
    adapter = PROVIDERS[provider](sink)
    for event in (event for event in lines(path) if event.get("type") not in FAILURES):
        await adapter.feed(event)
    if not fails(path):
        await adapter.finish()
    for message, text, thinking, calls in sink.messages:
        assert message.text == text
        assert (message.thinking or "") == thinking
        assert [call.arguments for call in message.tool_calls or ()] == [text or "{}" for text in calls]


@pytest.mark.streams
@pytest.mark.parametrize(("provider", "path"), recordings())
async def test_recording_cut_anywhere_is_a_clear_error_or_whole(provider: str, path: Path) -> None:
    events = lines(path)
    for length in range(0, len(events), 1 + len(events) // 40):
        sink = RecordingSink()
        adapter = PROVIDERS[provider](sink)
        try:
            for event in events[:length]:
                await adapter.feed(event)
            await adapter.finish()
        except ProviderError:
            continue
        assert (sink.open_text, sink.open_thinking, sink.open_calls) == ("", "", {})
