"""What a gateway process knows of itself, as Prometheus' metrics: read when somebody asks, never before."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import gateway
from gateway.broker.cluster_link import ClusterLink
from gateway.broker.link import RedisLink
from gateway.broker.redis import RedisBroker
from gateway.hub import Hub
from gateway.limits import Limits
from gateway.measures import Histogram
from gateway.run_watch import RunWatch
from gateway.sweeper import Sweeper
from gateway.wheel import Wheel

__all__ = ["Metrics", "Sources", "registry_of"]

_NAMESPACE = "gateway_"


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Whose numbers are shown: the objects of one process."""

    hub: Hub
    wheel: Wheel
    sweeper: Sweeper
    runs: RunWatch
    limits: Limits


class Metrics(Collector):
    """Sums up what the objects of one process know; belongs to the process's event loop.

    No label is named after a topic or a user: their number has no bound.

    Args:
        sources: The objects.

    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Give every metric with its value now; to be called in the loop."""
        yield _gauge("build_info", "The version that runs; the value is 1.", {gateway.__version__: 1}, "version")
        yield from self._connections()
        yield from self._topics()
        yield from self._fan_out()
        yield from self._recovery()
        yield from self._memory()
        yield from self._broker()
        yield from self._runs()

    def _connections(self) -> Iterator[Metric]:
        wheel, measures, limits = self._sources.wheel, self._sources.hub.measures, self._sources.limits
        states = {
            "connecting": wheel.new,
            "lagging": wheel.lagging,
            "steady": max(0, len(wheel) - wheel.new - wheel.lagging),
        }
        yield _gauge(
            "connections",
            "Websockets and HTTP streams that are open: connecting, steady, or lagging with a full socket.",
            states,
            "state",
        )
        yield _counter("connections_opened", "Websockets that were accepted.", measures.opened)
        yield _counter(
            "disconnects",
            "Websockets that ended, by the gateway's close code; `client` where the other side ended it.",
            measures.closes,
            "code",
        )
        commands = CounterMetricFamily(
            f"{_NAMESPACE}commands",
            "Clients' commands, by method (rpc by its own) and outcome: ok, closed, or the error's code.",
            labels=("method", "outcome"),
        )
        for (method, outcome), count in measures.commands.items():
            commands.add_metric((method, outcome), count)
        yield commands
        yield _counter(
            "limit_refusals",
            "What was refused because somebody had as much already, by limit.",
            {
                "connections_per_user": limits.connections_of_user.refusals,
                "connections_per_address": limits.connections_of_address.refusals,
                "topics_per_user": limits.topics_of_user.refusals,
                "requests": limits.requests.refusals,
                "commands_per_connection": _total(measures.commands, outcome="111"),
            },
            "limit",
        )

    def _topics(self) -> Iterator[Metric]:
        topics = self._sources.hub.topics
        live = behind = summaries = 0
        events = furthest = 0
        for topic in topics:
            readers = topic.readers
            summed_up = readers - topic.viewers
            summaries += summed_up
            live += readers - len(topic.behind)
            behind += len(topic.behind)
            if topic.behind:
                lag = [max(0, topic.ring.end - each.cursor) for each in topic.behind if not each.summarised]
                events += sum(lag)
                furthest = max(furthest, *lag, 0)
        yield _gauge("topics", "Topics that are heard.", len(topics))
        yield _gauge(
            "readers", "Subscriptions: live at the head, or behind.", {"live": live, "behind": behind}, "state"
        )
        yield _gauge("summary_readers", "Of them, those that read a topic's summary only.", summaries)
        yield _gauge("lag_events", "Events that readers behind have not been sent, all together.", events)
        yield _gauge("lag_events_max", "Events that the reader furthest behind has not been sent.", furthest)

    def _fan_out(self) -> Iterator[Metric]:
        hub = self._sources.hub
        measures, rings = hub.measures, [topic.ring for topic in hub.topics]
        lines = hub.rings.gone + sum(len(ring.offsets) for ring in rings)
        yield _counter("received_events", "Events that were heard from the broker, or read from it.", lines)
        yield _counter(
            "received_bytes",
            "Bytes of them, as the lines that readers get, and what keeping each costs.",
            hub.rings.written + sum(ring.written for ring in rings),
        )
        yield _counter("sent_events", "Events by which live readers were moved on.", measures.sent_events)
        yield _counter(
            "sent_writes", "Writes to live readers; one carries all that is new to it.", measures.flush_writes
        )
        yield _counter(
            "sent_bytes",
            "Bytes written to readers before compression: by the fan-out, to catch up, in replies and other pushes.",
            {
                "live": int(measures.flush_bytes.total),
                "catch_up": measures.catch_up_bytes,
                "reply": measures.reply_bytes,
            },
            "road",
        )
        yield _histogram("flush_seconds", "Time that one turn of the fan-out takes.", measures.flush_seconds)
        yield _histogram(
            "flush_bytes", "Bytes that one turn writes, to all its readers together.", measures.flush_bytes
        )

    def _recovery(self) -> Iterator[Metric]:
        measures = self._sources.hub.measures
        kinds = {kind: measures.recoveries[kind] for kind in ("continued", "snapshot", "refused")}
        yield _counter("joins", "Subscriptions that named no position.", measures.joins)
        yield _counter(
            "recoveries",
            "Subscriptions that named a position: continued from it, given a snapshot, or told that they cannot go on.",
            kinds,
            "kind",
        )
        found = {how: measures.gaps[how] for how in ("live", "audit", "moved")}
        yield _counter("gaps", "Holes in what was heard: seen by the next event, or by the audit.", found, "found_by")
        yield _counter(
            "gaps_healed", "Holes that were read from the store before any reader saw them.", measures.gaps_healed
        )
        yield _counter("snapshots_shared", "Snapshots that were there already.", measures.snapshots_shared)
        yield _counter("snapshots_made", "Snapshots that had to be encoded.", measures.snapshots_made)
        yield _histogram("snapshot_bytes", "Their sizes.", measures.snapshot_bytes)

    def _memory(self) -> Iterator[Metric]:
        hub = self._sources.hub
        yield _gauge("ring_bytes", "Bytes of recent events in memory.", hub.rings.used)
        yield _gauge("ring_limit_bytes", "What they may be.", hub.rings.limit)
        yield _gauge("mirror_bytes", "Bytes of folded states in memory, as their snapshots count.", hub.folds.size)
        yield _gauge("mirror_limit_bytes", "What they may be.", hub.folds.limit)

    def _broker(self) -> Iterator[Metric]:
        hub = self._sources.hub
        yield _gauge("link_up", "Whether the broker's channels are heard.", int(hub.link_up))
        yield _gauge("sure", "Whether readers have everything, or what was missed is still to be read.", int(hub.sure))
        yield _counter("link_losses", "How often the link to the broker's channels was lost.", hub.measures.losses)
        connects: dict[str, int] = {}
        if isinstance(hub.link, RedisLink | ClusterLink):
            connects["link"] = hub.link.connects
        if isinstance(hub.broker, RedisBroker):
            connects["calls"] = hub.broker.server.connects
            yield _histogram("broker_seconds", "Time from a call to the broker's answer.", hub.broker.server.latency)
        yield _counter(
            "broker_connects",
            "Connections made to the broker, for calls and to hear its channels; more than the first are reconnects.",
            connects,
            "use",
        )

    def _runs(self) -> Iterator[Metric]:
        runs, sweeper = self._sources.runs, self._sources.sweeper
        yield _gauge(
            "runs",
            "Runs that go on, of those that were heard here: running, waiting for people, cancelling.",
            runs.states(),
            "state",
        )
        yield _counter("runs_started", "Runs whose start was heard here.", runs.started)
        ends = {status: runs.ends[status] for status in ("completed", "failed", "cancelled", "lost")}
        yield _counter("runs_ended", "Runs whose end was heard here.", ends, "status")
        swept = {what: sweeper.swept[what] for what in ("lost", "expired")}
        yield _counter(
            "swept", "Ends that this process wrote for the dead: runs lost, approvals expired.", swept, "what"
        )
        waiting, oldest = runs.waiting(self._sources.hub.broker.now())
        yield _gauge("approvals_waiting", "Questions that wait for people.", waiting)
        yield _gauge("approvals_oldest_seconds", "How long the oldest of them has waited.", oldest)
        yield _histogram(
            "approval_seconds", "Time from a question to its answer, by the times in the events.", runs.decisions
        )
        yield _histogram(
            "first_output_seconds",
            "Time from a run's start to its model's first words, by the times in the events.",
            runs.first_output,
        )
        yield _histogram(
            "stop_seconds", "Time from the wish to stop a run to its end, by the times in the events.", runs.stops
        )


def registry_of(collect: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """Make a registry of these metrics and of the process's own (CPU, memory, files)."""
    registry = CollectorRegistry()
    registry.register(_Asked(collect))
    ProcessCollector(registry=registry)
    return registry


class _Asked(Collector):
    """A collector whose names are not looked at when it is registered: the loop may not run yet."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _gauge(name: str, help: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    return _family(GaugeMetricFamily, name, help, value, label)


def _counter(name: str, help: str, value: float | Mapping[str, float], label: str = "") -> Metric:
    return _family(CounterMetricFamily, name, help, value, label)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help: str,
    value: float | Mapping[str, float],
    label: str,
) -> Metric:
    if not isinstance(value, Mapping):
        return kind(_NAMESPACE + name, help, value=value)
    family = kind(_NAMESPACE + name, help, labels=(label,))
    for one, number in value.items():
        family.add_metric((one,), number)
    return family


def _histogram(name: str, help: str, values: Histogram) -> Metric:
    buckets: list[tuple[str, float]] = []
    count = 0
    for bound, number in zip((*values.bounds, float("inf")), values.counts, strict=True):
        count += number
        buckets.append(("+Inf" if bound == float("inf") else str(bound), count))
    family = HistogramMetricFamily(_NAMESPACE + name, help)
    family.add_metric((), buckets, sum_value=values.total)
    return family


def _total(commands: Mapping[tuple[str, str], int], *, outcome: str) -> int:
    return sum(count for (_, how), count in commands.items() if how == outcome)
