"""The spans of runs, as an exporter gets them, from the publisher to the gateway."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

from gateway.client import Client
from gateway.publisher import Publisher
from tests.serving import eventually, serve

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
    trace.set_tracer_provider(provider)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def spans() -> dict[str, ReadableSpan]:
    return {span.name: span for span in EXPORTER.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def id_of(span: ReadableSpan) -> int:
    return context_of(span).span_id


async def test_a_run_is_a_span_with_its_steps_tools_and_appends(redis_url: str, key_prefix: str) -> None:
    async with Publisher(redis_url, key_prefix=key_prefix) as publisher:
        with trace.get_tracer("caller").start_as_current_span("request"):
            async with publisher.run("t", agent="researcher") as run:
                await run.log_event("step_start")
                with trace.get_tracer("model").start_as_current_span("chat"):
                    await run.delta("Hello")
                await run.tool_call("c", "search", "{}")
                await run.tool_result("c", "search", "nothing", error=True)
                await run.log_event("step_end")
        after = trace.get_current_span()
    found = spans()
    whole = found["run researcher"]
    assert parent_of(whole) == id_of(found["request"])
    assert whole.attributes is not None
    assert whole.attributes["gateway.topic"] == "t"
    assert whole.attributes["gateway.run"] == run.id
    assert whole.attributes["gateway.outcome"] == "agent_complete"
    for name in ("step", "append", "chat"):
        assert parent_of(found[name]) == id_of(whole)
    assert parent_of(found["execute_tool search"]) == id_of(found["step"])
    assert found["execute_tool search"].status.status_code is StatusCode.ERROR
    assert not after.get_span_context().is_valid


async def test_a_run_that_fails_is_a_span_that_failed(redis_url: str, key_prefix: str) -> None:
    async with Publisher(redis_url, key_prefix=key_prefix) as publisher:
        with contextlib.suppress(ZeroDivisionError):
            async with publisher.run("t", agent="a") as run:
                await run.log_event("step_start")
                await run.tool_call("c", "search", "{}")
                1 / 0  # noqa: B018  # fails
    found = spans()
    assert found["run a"].status.status_code is StatusCode.ERROR
    assert {"step", "execute_tool search"} <= found.keys()


async def test_the_gateway_goes_on_with_the_trace(redis_url: str, key_prefix: str) -> None:
    async with (
        serve(redis_url, key_prefix, ping_interval=0.2) as served,
        Publisher(redis_url, key_prefix=key_prefix) as publisher,
        Client(served.http) as client,
    ):
        await publisher.publish("t", {"type": "note"})
        subscription = client.subscribe("t")
        await anext(subscription)
        async with publisher.run("t", agent="a"):
            pass
        told = None
        async for update in subscription:
            if update.data is not None and update.data["type"] == "agent_start":
                told = update.data["trace"]
                break
        await eventually(lambda: "deliver run" in spans())
    found = spans()
    whole, delivered = context_of(found["run a"]), found["deliver run"]
    assert told is not None
    assert told.startswith(f"00-{whole.trace_id:032x}-{whole.span_id:016x}-")
    assert context_of(delivered).trace_id == whole.trace_id
    assert parent_of(delivered) == whole.span_id


async def test_a_sub_agent_s_run_is_inside_its_parent_s(redis_url: str, key_prefix: str) -> None:
    async with (
        Publisher(redis_url, key_prefix=key_prefix) as publisher,
        publisher.run("t", agent="parent") as run,
        run.sub_agent("child"),
    ):
        pass
    found = spans()
    assert parent_of(found["run child"]) == id_of(found["run parent"])


def test_without_the_package_nothing_happens() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None
from gateway.tracing import AVAILABLE, RunTrace, heard_run
trace = RunTrace(topic="t", run="r", agent="a")
trace.enter()
trace.event("step_start", {})
trace.tool_call("c", "search")
trace.tool_result("c", error=False)
assert trace.append(events=1, size=1) is None
trace.leave()
trace.end("agent_complete")
heard_run("00-" + "1" * 32 + "-" + "2" * 16 + "-01", topic="t", run="r", began=1, ended=2, outcome="agent_complete")
print(AVAILABLE, trace.parent)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False None"
