"""A mirror's context is the run's, whatever the run does, over runs, trims and restarts of either."""

import asyncio
import contextlib
import json
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gateway.archive import Archive
from gateway.broker.redis import RedisBroker
from gateway.codec import decode_event, encode_json
from gateway.context.context import Context
from gateway.context.messages import Message, ToolCall
from gateway.errors import EventRefusedError
from gateway.mirror import Mirror
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Publication, Topic, new_id
from tests.context.strategies import MESSAGES

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
CALLS = st.sampled_from(["c1", "c2", "c3"])
COUNTS = st.integers(0, 5)
STEPS = st.one_of(
    st.tuples(st.just("say"), MESSAGES),
    st.tuples(st.just("say"), MESSAGES),
    st.tuples(st.just("call"), CALLS),
    st.tuples(st.just("delta"), TEXT),
    st.tuples(st.just("start_tool"), CALLS),
    st.tuples(st.just("answer_tool"), CALLS, TEXT),
    st.tuples(st.just("use"), CALLS, COUNTS),
    st.tuples(st.just("use_more"), COUNTS),
    st.tuples(st.just("discard"), CALLS),
    st.tuples(st.just("replace"), COUNTS, COUNTS, TEXT),
    st.tuples(st.just("replace"), COUNTS, COUNTS, TEXT),
    st.tuples(st.just("clear")),
    st.tuples(st.just("patch")),
    st.tuples(st.just("book"), st.sampled_from(["turn_start", "turn_end", "step_start", "step_end"]), COUNTS),
    st.tuples(st.just("set"), st.sampled_from(["system_prompt", "agent_name"]), st.none() | TEXT),
    st.tuples(st.just("set"), st.sampled_from(["iteration", "max_iterations"]), COUNTS),
    st.tuples(st.just("overlay"), TEXT),
    st.tuples(st.just("next"), st.sampled_from(["complete", "fail", "given", "adopt", "rejoin"])),
    st.tuples(st.just("trim")),
)


class World:
    """A topic with one run after the other, and a reader who is never away."""

    def __init__(self, broker: RedisBroker, publisher: Publisher) -> None:
        self.broker = broker
        self.publisher = publisher
        self.topic = Topic(f"t/{new_id()}")
        self.mirror = Mirror(self.topic)
        self.run: Run
        self.logged: dict[int, dict[str, Any]] = {}
        """The whole log, by seq."""
        self.trimmed = False
        """By hand, so that what is shadowed is gone; `tests/test_archive.py` has the trimmer, which keeps it."""

    async def begin(self, **how: Any) -> None:
        self.run = await self.publisher.run(self.topic, agent="a", **how).__aenter__()

    async def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("say", message):
                await self.run.add_message(message)
            case ("call", call):
                calls = (ToolCall(id=call, name="t", arguments={"x": 1}),)
                await self.run.add_message(Message.assistant(None, tool_calls=calls))
            case ("delta", text):
                await self.run.delta(text)
                await self.run.thinking(text)
            case ("start_tool", call):
                await self.run.tool_call(call, "t", "{}")
            case ("answer_tool", call, text):
                await self.run.tool_result(call, "t", text)
            case ("use", call, count):
                await self.run.usage({"requests": 1, "output_tokens": count}, call=call)
            case ("use_more", count):
                await self.run.change_context(lambda context: context.add_usage({"input_tokens": count}))
            case ("discard", call):
                await self.run.delta("x")
                await self.run.discard(reason="again", call=call)
            case ("replace", first, more, text):
                await self.run.change_context(
                    lambda context: context.replace_message_range(first, first + more, Message.system(text))
                )
            case ("clear", *_):
                await self.run.change_context(Context.clear)
            case ("patch", *_):
                await self.run.change_context(Context.patch_dangling_tool_calls)
            case ("book", kind, number):
                await self.run.log_event(kind, {"number": number})
            case ("set", field, value):
                await self.run.set_context(**{field: value})
            case ("overlay", text):
                await self.run.change_context(lambda context: context.put_system_prompt_overlay(text))
            case ("next", how):
                await self.next(how)
            case ("trim", *_):
                await self.trim()

    async def next(self, how: str) -> None:
        if how == "fail":
            await self.run.fail("no more")
        await self.run.__aexit__(None, None, None)
        if how == "rejoin":
            # The reader goes on from what it had stored.
            self.mirror = Mirror.restore(json.loads(json.dumps(self.mirror.snapshot())))
        await self.read()
        match how:
            case "given":
                # As another process has it, which asked a gateway.
                context = Context.deserialize(json.loads(json.dumps(self.mirror.context)))
                await self.begin(context=context)
            case "adopt":
                own = Context.new(messages=[Message.user("mine"), Message.assistant("yes")], system_prompt="p")
                await self.begin(context=own.replace_message_range(0, 0, Message.system("s")), adopt=True)
            case _:
                await self.begin()

    async def trim(self) -> None:
        await self.run.flush()
        self.trimmed = True
        state = await self.publisher.read(self.topic)
        await self.broker.trim(
            self.topic, encode_json(state.mirror.snapshot()), position=state.position, size=state.size
        )

    async def read(self) -> None:
        history = await self.broker.read(self.topic, self.mirror.position, limit=10_000)
        if not history.complete:
            assert history.snapshot is not None
            self.mirror = Mirror.restore(json.loads(history.snapshot))
        self.mirror.resume(history.epoch)
        for stored in history.events:
            publication = Publication(
                offset=stored.offset, data=decode_event(stored.data), first=self.mirror.offset + 1
            )
            assert self.mirror.apply(publication) == "applied"
            self.consistent()
        self.mirror.offset = max(self.mirror.offset, history.upto)

    def consistent(self) -> None:
        """At every event the mirror's context is one that a run could begin with."""
        there = Context.deserialize(self.mirror.context)
        assert there.log.next_seq == self.mirror.context["next_seq"]
        shown = [message["content"] for message in self.mirror.messages()]
        assert shown == [event.data.get("content") for event in there.log.surface() if event.type != "cleared"]

    async def check(self) -> None:
        await self.run.flush()
        await self.read()
        here, there = self.run.context, Context.deserialize(json.loads(json.dumps(self.mirror.context)))
        assert there.entries == here.entries
        assert there.log.surface() == here.log.surface()
        assert there.log.next_seq == here.log.next_seq
        assert there.usage == here.usage
        assert there.tool_calls == here.tool_calls
        for field in ("id", "agent_name", "system_prompt", "needs_response", "iteration", "started_at"):
            assert getattr(there, field) == getattr(here, field), field
        assert (there.max_iterations, there.deps) == (here.max_iterations, {})
        self.logged |= {event.seq: event.to_dict() for event in here.log.events()}

    async def end(self) -> None:
        await self.run.__aexit__(None, None, None)
        self.logged |= {event.seq: event.to_dict() for event in self.run.context.log.events()}
        page = await Archive(self.broker).page(self.topic, start=0)
        names = ("seq", "type", "time", "data")
        found = {entry["seq"]: {name: entry[name] for name in names} for entry in page["events"]}
        if not self.trimmed:
            # Not one event is lost by what shadows it: each is found by its seq.
            assert found == self.logged
            assert sorted(found) == list(range(self.run.context.log.next_seq))
        assert all(self.logged[seq] == entry for seq, entry in found.items())


async def lived(broker: RedisBroker, steps: list[tuple[Any, ...]]) -> None:
    async with Publisher(broker=broker) as publisher:
        world = World(broker, publisher)
        await world.begin()
        for step in steps:
            # What an entry rule refuses changes nothing (PROTOCOL.md 4.4).
            with contextlib.suppress(EventRefusedError):
                await world.do(step)
            await world.check()
        await world.end()


async def lived_alone(redis_url: str, key_prefix: str, steps: list[tuple[Any, ...]]) -> None:
    broker = RedisBroker(redis_url, key_prefix=key_prefix)
    try:
        await lived(broker, steps)
    finally:
        await broker.aclose()


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, max_size=14))
@example(steps=[("use", "c1", 3), ("next", "adopt"), ("use", "c1", 4), ("next", "given")])
@example(
    steps=[("call", "c1"), ("start_tool", "c1"), ("next", "adopt"), ("start_tool", "c2"), ("trim",), ("next", "given")]
)
def test_mirrors_context_is_the_runs_after_every_event(
    redis_url: str, key_prefix: str, steps: list[tuple[Any, ...]]
) -> None:
    asyncio.run(lived_alone(redis_url, key_prefix, steps))
