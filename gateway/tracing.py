"""Spans of OpenTelemetry for runs, where its API is installed and somebody records; else nothing happens.

A run is a span, its steps, tool calls and appends are spans in it. Its context travels as ``trace`` of ``agent_start``
(W3C Trace Context, `traceparent`), so that whoever reads can go on with the trace, as the gateway does.
"""

from collections.abc import Mapping
from typing import Any

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace as traces
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # the extra `otel` is not installed
    AVAILABLE = False
else:
    AVAILABLE = True

__all__ = ["AVAILABLE", "RunTrace", "heard_run"]

_NAME = "agent-gateway"
_FAILURES = {"agent_error", "agent_lost"}


class RunTrace:
    """The spans of one run; made when it is entered, in the context of whoever enters it.

    Args:
        topic: Where it writes.
        run: Its id.
        agent: Its agent; "" where that is not known.

    Attributes:
        parent: The `traceparent` of the run's span, for others to go on with; None where nobody records.

    """

    def __init__(self, *, topic: str, run: str, agent: str) -> None:
        self.parent: str | None = None
        self._span: Any = None
        self._inside: Any = None
        self._attached: Any = None
        self._steps: list[Any] = []
        self._tools: dict[str, Any] = {}
        if not AVAILABLE:
            return
        attributes = {"gateway.topic": topic, "gateway.run": run, "gen_ai.agent.name": agent}
        span = traces.get_tracer(_NAME).start_span(f"run {agent}".strip(), attributes=attributes)
        if span.is_recording():
            self._span = span
            self._inside = traces.set_span_in_context(span)
            carrier: dict[str, str] = {}
            TraceContextTextMapPropagator().inject(carrier, self._inside)
            self.parent = carrier.get("traceparent")

    def enter(self) -> None:
        """Have what the run's block records, such as the spans of a model's SDK, be inside the run."""
        if self._span is not None:
            self._attached = contexts.attach(self._inside)

    def leave(self) -> None:
        """End that; to be called in the task that has entered."""
        if self._attached is not None:
            contexts.detach(self._attached)
            self._attached = None

    def event(self, type: str, data: Mapping[str, Any]) -> None:
        """Note a step's begin or end."""
        if self._span is None:
            return
        if type == "step_start":
            self._steps.append(self._begun("step", context=self._inside))
        elif type == "step_end" and self._steps:
            self._steps.pop().end()

    def tool_call(self, id: str, name: str) -> None:
        """Note that a tool starts."""
        if self._span is not None:
            attributes = {"gen_ai.tool.name": name, "gen_ai.tool.call.id": id}
            self._tools[id] = self._begun(f"execute_tool {name}", context=self._within, attributes=attributes)

    def tool_result(self, id: str, *, error: bool) -> None:
        """Note that a tool has answered."""
        span = self._tools.pop(id, None)
        if span is not None:
            if error:
                span.set_status(traces.Status(traces.StatusCode.ERROR))
            span.end()

    def append(self, *, events: int, size: int) -> Any:
        """Give the span of an append, to be ended by its `end`; None where nobody records."""
        if self._span is None:
            return None
        attributes = {"gateway.events": events, "gateway.bytes": size}
        return self._begun("append", context=self._inside, kind=traces.SpanKind.PRODUCER, attributes=attributes)

    def end(self, outcome: str) -> None:
        """Note the run's end, and end what is still open in it.

        Args:
            outcome: The type of the event that ended it.

        """
        if self._span is None:
            return
        for span in (*self._tools.values(), *reversed(self._steps)):
            span.end()
        self._tools.clear()
        self._steps.clear()
        _finish(self._span, outcome)

    @property
    def _within(self) -> Any:
        return traces.set_span_in_context(self._steps[-1]) if self._steps else self._inside

    def _begun(self, name: str, **facts: Any) -> Any:
        return traces.get_tracer(_NAME).start_span(name, **facts)


def heard_run(trace: str, *, topic: str, run: str, began: int, ended: int, outcome: str) -> None:
    """Record in a gateway process that it carried a run to its readers, as a part of the run's own trace.

    Args:
        trace: The `traceparent` that the run's start carries.
        topic: Its topic.
        run: Its id.
        began: When it started, by its events; Unix time in ms.
        ended: When it ended.
        outcome: The type of the event that ended it.

    """
    if not AVAILABLE:
        return
    span = traces.get_tracer(_NAME).start_span(
        "deliver run",
        context=TraceContextTextMapPropagator().extract({"traceparent": trace}, contexts.Context()),
        kind=traces.SpanKind.CONSUMER,
        attributes={"gateway.topic": topic, "gateway.run": run},
        start_time=began * 1_000_000,
    )
    _finish(span, outcome, at=max(began, ended) * 1_000_000)


def _finish(span: Any, outcome: str, *, at: int | None = None) -> None:
    span.set_attribute("gateway.outcome", outcome)
    if outcome in _FAILURES:
        span.set_status(traces.Status(traces.StatusCode.ERROR))
    span.end(end_time=at)
