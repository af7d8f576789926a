"""The laws that each answer must keep, judged as it is given."""

from gateway.broker.port import AppendAnswer, Appended, AppendRequest, Ended, History
from tests.checker.faults import LAPSED
from tests.checker.road import Call
from tests.checker.truth import Fact, State, Truth, Violation

__all__ = ["Judge"]


class Judge:
    """Sees every answer of one topic, and keeps the truth about it."""

    def __init__(self) -> None:
        self.truth = Truth()
        self.state = State()
        """The state as it was seen last."""
        self.deletions = 0
        """Deletions that were sent; each, and each server that came back with what was deleted, begins a history."""
        self.erased: set[bytes] = set()
        """What runs had written when a deletion took place: none of it comes back."""
        self.forgotten_below = 0
        """Up to here a trim may have dropped what an append was answered."""

    def inspected(self, state: State) -> None:
        """Take note of the state as it is now."""
        self.state = state
        if self.deletions and state.gone and state.epoch not in self.truth.branches:
            self._deleted(state)
        if state.epoch:
            self.truth.learn(state)

    def _deleted(self, state: State) -> None:
        """Take note of what is gone for good."""
        self.truth.causes += 1
        self.forgotten_below = 0
        self.erased |= {
            fact.data
            for name, branch in self.truth.branches.items()
            if name in state.gone
            for fact in branch.facts.values()
            if fact.request is not None and fact.request.run
        }

    def lost(self, run: str) -> None:
        """Judge the end that somebody wrote for a run; the state is the one before."""
        if self.state.deadline > LAPSED:
            raise Violation(f"run {run} is declared lost, and its lease has not lapsed")

    def trimmed(self, before: State) -> None:
        """Take note of a trim."""
        self.forgotten_below = max(self.forgotten_below, before.floor)

    def appended(self, call: Call, request: AppendRequest, answer: AppendAnswer, before: State) -> None:
        truth = self.truth
        if isinstance(answer, Appended) and not answer.repeated:
            facts = [
                Fact(
                    kind=entry.kind,
                    type=entry.type,
                    data=entry.data,
                    message=entry.message,
                    request=request,
                    run=request.run,
                )
                for entry in request.entries
            ]
            if request.lease is not None and before.holder != request.run:
                self._took(call, answer)
            truth.stored(answer.position.epoch, answer.first, facts)
        elif isinstance(answer, Appended):
            fact = truth.path(answer.position.epoch, answer.position.offset).get(answer.first)
            if fact is None or fact.request is None or fact.request.writer != request.writer:
                raise Violation(f"{request.writer} is told that its append is at {answer.position}, where it is not")
        if (
            request.run
            and before.epoch
            and all(truth.continues(call.position, state) for state in (before, self.state))
        ):
            self._final(call, request, answer, before)

    def _took(self, call: Call, answer: Appended) -> None:
        """Whoever takes a topic knows what the run before left open: it has read that run's end."""
        path = self.truth.path(answer.position.epoch, answer.first - 1)
        end = max((offset for offset, fact in path.items() if fact.kind == "x"), default=0)
        if call.position.offset < end:
            raise Violation(f"{call.actor.name} takes a topic at {call.position}, whose last run ended at {end}")

    def _final(self, call: Call, request: AppendRequest, answer: AppendAnswer, before: State) -> None:
        """Law 8: whoever comes after a run's end is told of it."""
        path = self.truth.path(before.epoch, before.top)
        ends = [offset for offset, fact in path.items() if fact.kind == "x" and fact.run == request.run]
        if not ends or ends[0] <= self.forgotten_below:
            return
        if isinstance(answer, Appended) and answer.repeated:
            return
        if not isinstance(answer, Ended) or answer.position.offset != ends[0]:
            raise Violation(f"run {request.run} ended at {ends[0]}, and then was answered {answer}")

    def read(self, call: Call, answer: History) -> None:
        state, truth = self.state, self.truth
        goes_on = truth.continues(call.position, state) and call.position.offset >= state.floor
        if answer.complete and not goes_on:
            raise Violation(f"who stood at {call.position} goes on in {state}")
        if goes_on and not answer.complete:
            raise Violation(f"who stood at {call.position} may not go on in {state}")
        if state.epoch:
            self._all_there(answer, state, truth, after=call.position.offset if answer.complete else answer.floor)

    def _all_there(self, answer: History, state: State, truth: Truth, *, after: int) -> None:
        """Law 1, and 7: a reader gets all that was stored, but for deltas of ended messages."""
        path = truth.path(state.epoch, state.top)
        ended = {fact.message for fact in path.values() if fact.kind == "e"}
        given = {stored.offset: stored.data for stored in answer.events}
        for offset in range(after + 1, answer.upto + 1):
            fact = path[offset]
            if given.pop(offset, None) != fact.data and not (fact.kind == "d" and fact.message in ended):
                raise Violation(f"a reader of {after + 1} to {answer.upto} is not given {offset}: {fact.data!r}")
        if given:
            raise Violation(f"a reader of {after + 1} to {answer.upto} is given {given}")
