"""Agents that write runs on a topic, one after another, and know what they wrote."""

import asyncio
import random
from typing import Any

from gateway.broker.port import Broker
from gateway.context.messages import Message
from gateway.errors import ConditionError, FencedError, HistoryConflictError, RunEndedError, TopicBusyError
from gateway.publisher import Publisher
from gateway.run import Run
from gateway.types import Topic
from tests.faults.tally import Tally

__all__ = ["Agent"]

WORDS = ("stream", "token", "größe", "🚀", "mirror", "\u2028", "seam", "e\u0301", "offset", "日本", '"quoted"', "\\")


class Agent:
    """Writes random runs until it is told to stop.

    Args:
        broker: What it writes to; the caller closes it.
        topic: Where.
        choice: Decides what it writes.
        tally: Where it counts what happens to it.
        lease: Seconds after which its run counts as lost once it is dead.
        pace: Seconds between two things it says, at most.

    """

    def __init__(
        self, broker: Broker, topic: str, choice: random.Random, tally: Tally, *, lease: float, pace: float = 0.02
    ) -> None:
        self.topic = topic
        self.written: list[str] = []
        """The texts of all messages that were acknowledged, in order."""
        self.losable = False
        """The store lost something that no run could write again; what was written no longer has to be there."""
        self.struck: str = ""
        """The epoch of its run when the store lost something; a run that has left it has written it again."""
        self._struck: Run | None = None
        """That run."""
        self.said: dict[str, str] = {}
        """By message: the text that was streamed for it, sent or not."""
        self.run: Run | None = None
        """The run that holds the topic."""
        self._broker = broker
        self._lease = lease
        self._process = _Process(broker)
        self._choice = choice
        self._tally = tally
        self._pace = pace
        self._number = 0
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._stopping.clear()
        self._process = _Process(self._broker)
        self._task = asyncio.create_task(self._live(self._process))

    async def stop(self) -> None:
        """End the run that is under way in good order, and begin no other."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    def strike(self) -> None:
        """Note that the store has lost something that only a run can write again that has not ended."""
        if self.run is None or self.run.ended is not None:
            self.losable = True
        else:
            self.struck, self._struck = self.run.position.epoch, self.run

    @property
    def unmended(self) -> bool:
        """Whether its run has not yet spoken to the store since that lost something."""
        return self.run is not None and self.run.position.epoch == self.struck

    @property
    def failure(self) -> BaseException | None:
        """Why it does not write any more; None while it does, or was told to stop."""
        done = self._task is not None and self._task.done() and not self._task.cancelled()
        return self._task.exception() if done and self._task is not None else None

    async def pause(self) -> None:
        """Stop its process where it is, with everything acknowledged that it had sent; `wake` lets it go on."""
        self._process.running.clear()
        while self._process.calls:
            await asyncio.sleep(0.005)

    def wake(self) -> None:
        """Let its process go on."""
        self._process.running.set()

    async def die(self) -> None:
        """End at once without an end of the run, as kill -9 does."""
        self._process.gone = True
        if self.run is not None and self.run is self._struck:
            self.losable = True  # it may not have come to write again what the store had lost
        while self._task is not None and not self._task.done():
            self._task.cancel()  # once for the agent, once for the end that its run cannot write
            await asyncio.wait([self._task], timeout=0.01)
        self.run = None
        self._task = None

    async def _live(self, process: "_Process") -> None:
        async with Publisher(broker=process, lease=self._lease) as publisher:
            await self._work(publisher)

    async def _work(self, publisher: Publisher) -> None:
        while not self._stopping.is_set():
            try:
                await self._one_run(publisher)
            except (TopicBusyError, RunEndedError, ConditionError):
                await asyncio.sleep(0.05)
            except FencedError:
                self._tally.add("fence")
                self.losable = True
            except HistoryConflictError:
                self._tally.add("conflict")
                assert self.losable, f"{self.topic}: a run could not write its log again, though it has it"

    async def _one_run(self, publisher: Publisher) -> None:
        state = await publisher.read(Topic(self.topic))
        opened = publisher.take(state, agent="talker") or publisher.run(self.topic, agent="talker", input="go")
        written: list[str] = []
        async with opened as run:
            self.run = run
            await run.set_context(title=f"about {self._text()}")
            await run.log_event("turn_start", {"turn": self._number})
            await self._say(run, written, Message.user(self._unique("asked")))
            for step in range(self._choice.randint(1, 4)):
                if self._stopping.is_set() and step:
                    break
                await run.log_event("step_start", {"step": step})
                await self._step(run, written)
                await run.log_event("step_end", {"step": step})
            await run.flush()
            self.written += written
            written = []
            await self._end(run)
        if self.unmended:
            self.losable = True  # its end was acknowledged by the store that is gone
        self.run = None

    async def _end(self, run: Run) -> None:
        match self._choice.randrange(5):
            case 0:
                await run.fail("it broke")
            case 1:
                await run.cancel("enough")
            case 2:
                await run.log_event("turn_end")
                await run.complete({"answer": 42})
            case _:
                await run.complete()

    async def _step(self, run: Run, written: list[str]) -> None:
        if self._choice.random() < 0.3:
            await run.thinking(self._text())
        for _ in range(self._choice.randint(1, 12)):
            await self._stream(run)
            await self._breathe()
        if self._choice.random() < 0.15:
            await run.discard(reason="again", call="first try")
            await self._stream(run)
        call = f"call-{self._number}-{self._choice.randrange(10**6)}"
        await run.usage({"requests": 1, "input_tokens": 7, "output_tokens": self._choice.randrange(50)}, call=call)
        uses_tool = self._choice.random() < 0.4
        if uses_tool:
            for piece in ('{"of":', '"everything"}'):
                await run.tool_call_delta(index=0, text=piece, id=call, name="look")
                await self._breathe()
        await self._say(run, written, Message.assistant(self._unique("answered")))
        if uses_tool:
            await run.tool_call(call, "look", {"of": "everything"})
            await self._breathe()
            text = self._unique("found")
            await run.tool_result(call, "look", text)
            written.append(text)
        match self._choice.randrange(6):
            case 0:
                await run.log("info", self._text(), fields={"n": self._number})
            case 1:
                await run.emit({"type": "app.note", "note": self._text()})
            case 2:
                await run.progress(fraction=0.5)
            case 3 if len(run.context.messages) > 3:
                summary = self._unique("summed up")
                await run.change_context(lambda context: context.replace_message_range(0, 2, Message.system(summary)))
                written.append(summary)
                self._tally.add("compaction")

    async def _stream(self, run: Run) -> None:
        text = self._text()
        await run.delta(text)
        message = run.open_message or ""
        self.said[message] = self.said.get(message, "") + text

    async def _say(self, run: Run, written: list[str], message: Message) -> None:
        await run.add_message(message)
        written.append(str(message.content))
        await self._breathe()

    async def _breathe(self) -> None:
        await asyncio.sleep(self._choice.random() * self._pace)

    def _text(self) -> str:
        return " ".join(self._choice.choices(WORDS, k=self._choice.randint(1, 6))) + " "

    def _unique(self, what: str) -> str:
        self._number += 1
        return f"{what} {self.topic} {self._number} {self._text()}"

    def found(self, events: dict[int, dict[str, Any]]) -> list[str]:
        """Give the messages that it has written as a history has them."""
        known = set(self.written)
        contents = [event.get("content") for event in events.values()]
        return [text for text in contents if isinstance(text, str) and text in known]


class _Process:
    """The broker as a process has it: while the process is paused, or once it is gone, nothing leaves it."""

    def __init__(self, broker: Broker) -> None:
        self.gone = False
        self.running = asyncio.Event()
        self.running.set()
        self.calls = 0
        """Calls without an answer."""
        self._broker = broker

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._broker, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*arguments: Any, **named: Any) -> Any:
            await self.running.wait()
            if self.gone:
                await asyncio.get_running_loop().create_future()
            self.calls += 1
            try:
                return await found(*arguments, **named)
            finally:
                self.calls -= 1

        return call
