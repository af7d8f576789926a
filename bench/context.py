"""What adding to a conversation costs, and whether it costs more the longer the conversation is.

    python -m bench.context

Each of 100,000 messages is added to an immutable context and ``messages`` is read after it. Reported are the time of
the second half over that of the first (1 = the length does not matter), and the whole over plain list appends.
"""

import time
from collections.abc import Callable

from gateway.context.context import Context
from gateway.context.messages import Message

COUNT = 100_000


def halves(step: Callable[[int], None]) -> tuple[float, float]:
    """Run a step for each number and give the seconds of the first and of the second half."""
    marks = [time.perf_counter()]
    for numbers in (range(COUNT // 2), range(COUNT // 2, COUNT)):
        for number in numbers:
            step(number)
        marks.append(time.perf_counter())
    return marks[1] - marks[0], marks[2] - marks[1]


def main() -> None:
    messages = [Message.user(f"message {number}") for number in range(COUNT)]
    ctx = Context.new()

    def add(number: int) -> None:
        nonlocal ctx
        ctx = ctx.add_message(messages[number])
        assert ctx.messages[-1].content == messages[number].content

    plain: list[Message] = []

    def append(number: int) -> None:
        plain.append(messages[number])
        assert plain[-1].content == messages[number].content

    first, second = halves(add)
    plain_first, plain_second = halves(append)
    assert ctx.messages == plain
    total, plain_total = first + second, plain_first + plain_second
    print(f"{COUNT} adds, messages read after each: {total:.2f} s, {total / COUNT * 1e6:.1f} µs each")
    print(f"second half / first half: {second / first:.2f}")
    print(f"context / plain list: {total / plain_total:.0f}")


if __name__ == "__main__":
    main()
