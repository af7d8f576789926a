"""Hundreds of runs at once, judged by Chromium's trace; GATEWAY_LONG=1 runs the long forms."""

import asyncio
import os
import sys

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.load import Load, load
from tests.browser.tracing import heap, traced
from tests.e2e.processes import Gateway, until

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

LONG = bool(os.environ.get("GATEWAY_LONG"))
SECONDS = 30.0 if LONG else 4.0
LONGEST_MS = 50
HEAP_GROWTH = 6_000_000
"""Bytes, beside what the texts themselves need."""
BYTES_A_CHARACTER = 4
"""A text that grows is kept twice for a while, and in V8's ropes until somebody reads it."""
TOPICS = 500
RATE = 2_000
"""Events a second, all topics together."""
BOARD_TOPICS, BOARD_RATE = (500, 10_000) if LONG else (100, 2_000)
"""The same for the dashboard, which is sent summaries only."""
SHARE = 0.8 if LONG else 0.2
"""Of the offered rate, what must have been stored for the figures to say anything; beside other tests less is."""


def tell(name: str, tasks: list[float], rate: float, before: int, after: int) -> None:
    """Print the figures."""
    longest = f"longest task {max(tasks):.1f} ms of {len(tasks)}"
    sys.stderr.write(f"\n{name}: {rate:.0f} events/s stored; {longest}; heap {before >> 10} -> {after >> 10} KiB\n")


async def test_board_is_responsive_and_its_memory_flat(browser: Browser, gateway: Gateway) -> None:
    """500 topics, 10,000 events a second in the long form; the page is told of each topic 4 times a second."""
    page = await browser.new_page(viewport={"width": 1440, "height": 900})
    async with load(gateway.redis_url, BOARD_TOPICS) as work:
        await page.goto(f"{gateway.url}/dashboard")
        running = page.locator('.stat[data-term="state:running"] .val')
        await expect(running).to_have_text(str(BOARD_TOPICS))
        await work.write(rate=BOARD_RATE, seconds=SECONDS)  # the first time fills what is kept of each run
        before, rows = await heap(page), 0
        async with traced(browser, page) as trace:
            writing = asyncio.create_task(work.write(rate=BOARD_RATE, seconds=SECONDS))
            while not writing.done():
                await page.mouse.move(700, 500)
                await page.mouse.wheel(0, 400 if rows % 2 else -300)
                rows = max(rows, await page.locator(".run-row").count())
                await asyncio.sleep(0.2)
            rate = await writing
        after = await heap(page)
        tell("board", trace.tasks, rate, before, after)
        assert rate > SHARE * BOARD_RATE
        assert trace.longest < LONGEST_MS, sorted(trace.tasks)[-5:]
        assert after - before < HEAP_GROWTH
        assert rows < 100  # of those that are out of view nothing is drawn
        await page.mouse.move(700, 10)
        for run in work.runs[::2]:
            await run.complete()
        await expect(running).to_have_text(str(BOARD_TOPICS - len(work.runs[::2])))


WALL = """async (names) => {
  const { Gateway, store } = await import('/static/gateway/index.js');
  const gateway = new Gateway();
  globalThis.wall = new Map(names.map((name) => [name, store(gateway, name)]));
  for (const [name, topic] of wall) {
    const cell = document.createElement('p');
    const text = document.createTextNode('');
    cell.append(text);
    document.body.append(cell);
    topic.subscribe(() => {
      const { state, runs, open, offset } = topic.get();
      text.data = `${name} ${state} ${runs.at(-1)?.status} ${offset} ${(open.at(-1)?.text ?? '').slice(-40)}`;
    });
  }
  gateway.on('error', (error) => { throw error; });
  gateway.connect();
}"""
"""What a page of one's own does: the library's store as its README shows it, a cell a topic."""


async def test_500_mirrors_without_a_lens_are_exact_and_responsive(
    browser: Browser, page: Page, gateway: Gateway
) -> None:
    """2,000 events a second, none of them left out or merged with others while the page keeps up."""

    async def current(work: Load) -> bool:
        script = """names => names.map((name) => {
          const { state, offset, open } = wall.get(name).get();
          return [state, offset, open.map(({ message, text, thinking }) => [message, text, thinking])];
        })"""
        names = [run.topic for run in work.runs]
        wanted = []
        for name in names:
            topic = await gateway.topic(name)
            unfinished = [[part["message"], part["text"], part["thinking"]] for part in topic["mirror"]["open"]]
            wanted.append(["live", topic["offset"], unfinished])
        return bool(await page.evaluate(script, names) == wanted)

    async with load(gateway.redis_url, TOPICS) as work:
        await work.write(rate=RATE, seconds=SECONDS)
        await page.goto(f"{gateway.url}/healthz")  # of the gateway's origin, and without scripts of its own
        async with traced(browser, page) as opening:
            await page.evaluate(WALL, [run.topic for run in work.runs])
            await until(lambda: current(work), "all topics to be live")
        before, kept = await heap(page), work.characters
        async with traced(browser, page) as trace:
            rate = await work.write(rate=RATE, seconds=SECONDS)
            await until(lambda: current(work), "all that was written")
        after = await heap(page)
        tell("mirrors", trace.tasks, rate, before, after)
        assert rate > SHARE * RATE
        assert opening.longest < LONGEST_MS, sorted(opening.tasks)[-5:]
        assert trace.longest < LONGEST_MS, sorted(trace.tasks)[-5:]
        assert after - before < HEAP_GROWTH + BYTES_A_CHARACTER * (work.characters - kept)
