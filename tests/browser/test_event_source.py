"""A topic as server-sent events in a real browser: `EventSource` comes back by itself and misses nothing."""

import pytest
from playwright.async_api import Browser

from gateway.publisher import Publisher
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser

LISTEN = """(address) => {
    globalThis.got = [];
    globalThis.opened = 0;
    const events = new EventSource(address);
    events.onopen = () => { globalThis.opened += 1; };
    events.onmessage = (event) => globalThis.got.push([JSON.parse(event.data).text, event.lastEventId]);
}"""


@pytest.mark.parametrize("start", ["?from=start", ""])
async def test_event_source_goes_on_after_the_gateway_died(browser: Browser, gateway: Gateway, start: str) -> None:
    page = await browser.new_page()
    await page.goto(f"{gateway.url}/healthz")
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher:
        note = publisher.publish
        before = [f"before {number}" for number in range(50)]
        for text in before:
            await note("news", {"type": "note", "text": text})
        await page.evaluate(LISTEN, f"/topics/news/events{start}")
        await page.wait_for_function("opened === 1")
        meanwhile = []
        for round_ in (1, 2):
            live, missed = f"live {round_}", [f"missed {round_} {number}" for number in range(100)]
            await note("news", {"type": "note", "text": live})
            await page.wait_for_function("(text) => got.at(-1)?.[0] === text", arg=live)
            gateway.kill()
            for text in missed:
                await note("news", {"type": "note", "text": text})
            await gateway.start()
            await page.wait_for_function("(text) => got.at(-1)?.[0] === text", arg=missed[-1])
            meanwhile += [live, *missed]
    got = await page.evaluate("got")
    assert [text for text, _ in got] == [*(before if start else []), *meanwhile]
    offsets = [int(place.rpartition(":")[2]) for _, place in got]
    assert offsets == sorted(set(offsets))
    await page.close()
