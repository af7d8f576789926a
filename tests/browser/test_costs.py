"""What runs used and cost, on the chat page."""

import json
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.browser.looks import SIZES, look
from tests.serving import serve

pytestmark = pytest.mark.browser
expect.set_options(timeout=30_000)

CALL = {"requests": 1, "input_tokens": 12_000, "output_tokens": 1_000, "total_tokens": 13_000}


@pytest.mark.parametrize("priced", [True, False])
async def test_cost_is_shown_where_the_operator_says_what_models_cost(
    page: Page, redis_url: str, key_prefix: str, tmp_path: Path, *, priced: bool
) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"fast-*": {"input": 2, "output": 10, "cached": 0.2}} if priced else {}))
    async with (
        serve(redis_url, key_prefix, prices=str(path)) as gateway,
        Publisher(redis_url, key_prefix=key_prefix) as publisher,
    ):
        await page.goto(f"{gateway.http}/?topic=t")
        await expect(page.locator("#conn")).to_contain_text("Live")
        async with publisher.run("t", agent="a", model="fast-1") as run:
            await run.usage(CALL)
            await run.add_message(Message.assistant("First."))
            await expect(page.locator("#usage")).to_contain_text("12,000")
        done = page.locator("#lane .meta", has_text="13k tokens")
        if priced:
            await expect(done).to_contain_text("$0.034")
            await expect(page.locator("#usage")).to_contain_text("Cost$0.034")
        async with publisher.run("t", agent="a", model="a model without a price") as run:
            await run.usage({**CALL, "cache_read_input_tokens": 5_000})
            await run.add_message(Message.assistant("Second."))
        await expect(page.locator("#usage")).to_contain_text("This run13k tokens")
        if priced:
            await expect(page.locator("#usage")).to_contain_text("Costat least $0.034")
            await look(page, "chat-cost", sizes=SIZES)
        else:
            await expect(page.locator("body")).not_to_contain_text("$")
