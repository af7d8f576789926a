"""What a page costs: its main thread's tasks, from Chromium's own trace, and its memory."""

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, Page

__all__ = ["Trace", "heap", "traced"]


@dataclass
class Trace:
    """The tasks of one renderer's main thread; filled when the block ends."""

    tasks: list[float] = field(default_factory=list)
    """Of each, the time it had the processor, in ms: how long others kept it waiting says nothing about the page."""
    layouts: int = 0

    @property
    def longest(self) -> float:
        return max(self.tasks, default=0.0)


@contextlib.asynccontextmanager
async def traced(browser: Browser, page: Page) -> AsyncIterator[Trace]:
    """Trace a page for a block."""
    trace = Trace()
    await browser.start_tracing(
        page=page, categories=["toplevel", "devtools.timeline", "disabled-by-default-devtools.timeline"]
    )
    try:
        yield trace
    finally:
        events: list[dict[str, Any]] = json.loads(await browser.stop_tracing())["traceEvents"]
        main = {
            (event["pid"], event["tid"])
            for event in events
            if event.get("name") == "thread_name" and event["args"]["name"] == "CrRendererMain"
        }
        mine = {
            (event["pid"], event["tid"])
            for event in events
            if event.get("name") in {"FireAnimationFrame", "Layout"} and (event["pid"], event["tid"]) in main
        }
        for event in events:
            if (event.get("pid"), event.get("tid")) not in mine:
                continue
            if event["name"].endswith("RunTask") and event["ph"] == "X":
                trace.tasks.append(event.get("tdur", event["dur"]) / 1000)
            elif event["name"] == "Layout":
                trace.layouts += 1


async def heap(page: Page) -> int:
    """Give the bytes of a page's objects after a collection."""
    session = await page.context.new_cdp_session(page)
    try:
        await session.send("HeapProfiler.collectGarbage")
        return int((await session.send("Runtime.getHeapUsage"))["usedSize"])
    finally:
        await session.detach()
