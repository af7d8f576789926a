"""The examples of the library's README in a real browser: React itself, and a real gateway."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import Gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

ROOT = Path(__file__).parent.parent.parent
MODULES = ROOT / "tests" / "js" / "node_modules"
PACKAGES = {
    "scheduler": "scheduler/cjs/scheduler.production.js",
    "react": "react/cjs/react.production.js",
    "react-dom": "react-dom/cjs/react-dom.production.js",
    "react-dom/client": "react-dom/cjs/react-dom-client.production.js",
}
"""Each after those that it requires."""

APP = """async ({ packages, hook }) => {
    const loaded = {};
    for (const [name, code] of packages) {
        const module = { exports: {} };
        const run = new Function('module', 'exports', 'require', 'process', code);
        run(module, module.exports, (wanted) => loaded[wanted], { env: {} });
        loaded[name] = module.exports;
    }
    globalThis.React = loaded.react;
    const file = (text) => URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
    const react = file('export const { useMemo, useSyncExternalStore } = globalThis.React;');
    const code = hook.replace("'react'", `'${react}'`).replace("'/static", `'${location.origin}/static`);
    const { useTopic } = await import(file(code));
    const { Gateway } = await import('/static/gateway/index.js');
    const gateway = new Gateway();
    gateway.connect();
    const { createElement: h, StrictMode, useState } = loaded.react;
    globalThis.renders = 0;
    const Chat = ({ name }) => {
        globalThis.renders += 1;
        const { state, messages, open } = useTopic(gateway, name);
        return h('section', null, h('h1', null, `${name} ${state}`),
            messages.map(({ content }, index) => h('p', { key: index }, content)),
            open.map(({ message, text }) => h('p', { key: message, className: 'open' }, text)));
    };
    const App = () => {
        const [name, setName] = useState('chat:one');
        const other = name === 'chat:one' ? 'chat:two' : 'chat:one';
        return h('main', null, h('button', { onClick: () => setName(other) }, `Go to ${other}`), h(Chat, { name }));
    };
    const root = document.body.appendChild(document.createElement('div'));
    loaded['react-dom/client'].createRoot(root).render(h(StrictMode, null, h(App)));
}"""


def hook() -> str:
    """Give the README's hook."""
    readme = (ROOT / "static" / "gateway" / "README.md").read_text()
    (code,) = [
        code for code in re.findall(r"^```js\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE) if "'react'" in code
    ]
    return str(code)


async def test_hook_for_react_paints_exact_text_and_goes_from_topic_to_topic(
    browser: Browser, gateway: Gateway
) -> None:
    page = await browser.new_page(bypass_csp=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    # React tells of wrong use in the console; that this gateway has no favicon.ico is nobody's fault.
    page.on(
        "console", lambda told: errors.append(told.text) if told.type == "error" and "404" not in told.text else None
    )
    await page.goto(f"{gateway.url}/healthz")
    packages = [[name, (MODULES / path).read_text()] for name, path in PACKAGES.items()]
    await page.evaluate(APP, {"packages": packages, "hook": hook()})
    words = [f"word{number} " for number in range(1_000)]
    async with Publisher(gateway.redis_url, flush_interval=0) as publisher:
        async with publisher.run("chat:two", agent="b") as other:
            await other.add_message(Message.assistant("The other topic."))
        async with publisher.run("chat:one", agent="a") as run:
            await expect(page.locator("h1")).to_have_text("chat:one live")
            for word in words:
                await run.delta(word)
            await run.flush()
            await expect(page.locator(".open")).to_have_text("".join(words))
            assert await page.evaluate("renders") < len(words)  # once a frame, not once an event
            await page.get_by_role("button").click()
            await expect(page.locator("h1")).to_have_text("chat:two live")
            await expect(page.locator("p")).to_have_text("The other topic.")
            await run.add_message(Message.assistant("".join(words)))
        await page.get_by_role("button").click()
        await expect(page.locator("h1")).to_have_text("chat:one live")
        await expect(page.locator("p")).to_have_text("".join(words))
        await expect(page.locator(".open")).to_have_count(0)
    assert errors == []
