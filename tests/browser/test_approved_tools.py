"""A tool that requires approval has its effect only after somebody in a browser agreed to just that."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, expect

from gateway.agent.loop import answer
from gateway.context.approval import ApprovalRequest, Decision
from gateway.context.messages import Message, ToolCall
from gateway.context.tools import Tool
from gateway.publisher import Publisher
from tests.agent.script import Script, calls
from tests.e2e.processes import Gateway, running_gateway

pytestmark = pytest.mark.browser
expect.set_options(timeout=60_000)

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"], "additionalProperties": False}
ASKED = {"to": "bob"}


class Scene:
    """An agent that wants to pay, what it has paid, and a page."""

    def __init__(self, gateway: Gateway, publisher: Publisher, page: Page) -> None:
        self.gateway = gateway
        self.publisher = publisher
        self.page = page
        self.paid: list[Mapping[str, Any]] = []
        """The effect that must not happen unasked."""

    async def run(self, *, timeout: float | None = None) -> None:
        """Run the agent to its end; ``timeout`` is how long its question waits."""

        def pay(arguments: Mapping[str, Any]) -> str:
            self.paid.append(arguments)
            return "paid"

        tool = Tool(name="pay", function=pay, takes_context=False, parameters=SCHEMA, requires_approval=True)
        model = Script(calls(("c1", "pay", msgspec.json.encode(ASKED).decode())), Message.assistant("So be it."))
        async with self.publisher.run("t", agent="cashier") as run:

            async def hasty(request: ApprovalRequest) -> Decision:
                call = ToolCall(id=request.id, name=request.name, arguments=request.arguments)
                return await run.approval(call, timeout=timeout)

            if timeout is not None:
                await run.change_context(lambda context: msgspec.structs.replace(context, approval_handler=hasty))
            await run.add_message(Message.user("Pay him."))
            await answer(run, model, [tool])

    async def asked(self, **how: Any) -> "asyncio.Task[None]":
        """Start the agent, and wait until its question is on the page."""
        running = asyncio.create_task(self.run(**how))
        await expect(self.page.locator(".ask")).to_contain_text("Run pay?")
        assert self.paid == []
        return running

    async def result(self) -> str:
        """Give what the model was told of its call."""
        events = (await self.gateway.topic("t"))["mirror"]["context"]["events"]
        (result,) = [event["data"]["content"] for event in events if event["type"] == "tool_result"]
        return str(result)

    async def edit(self, text: str) -> None:
        await self.page.get_by_role("button", name="Edit arguments").click(delay=500)
        editor = self.page.get_by_role("textbox", name="Arguments")
        await editor.fill(text)
        await editor.press("Control+Enter")


@pytest.fixture
async def scene(page: Page) -> AsyncIterator[Scene]:
    async with running_gateway() as gateway, Publisher(gateway.redis_url) as publisher:
        await page.goto(f"{gateway.url}/?topic=t")
        await expect(page.locator("#conn")).to_contain_text("Live")
        yield Scene(gateway, publisher, page)


async def test_approved_tool_has_its_effect_once(scene: Scene) -> None:
    running = await scene.asked()
    await scene.page.get_by_role("button", name="Approve").click(delay=500)
    await running
    assert (scene.paid, await scene.result()) == ([ASKED], "paid")


async def test_rejected_tool_has_none(scene: Scene) -> None:
    running = await scene.asked()
    for _ in range(2):
        await scene.page.get_by_role("button", name="Reject").click(delay=500)
    await running
    assert scene.paid == []
    assert "not approved" in await scene.result()
    await expect(scene.page.locator("#lane .line", has_text="pay")).to_contain_text("rejected by you")


async def test_tool_that_nobody_decided_about_in_time_has_none(scene: Scene) -> None:
    running = await scene.asked(timeout=3.0)
    await running
    await expect(scene.page.locator(".ask")).to_have_count(0)
    await expect(scene.page.locator("#lane")).to_contain_text("nobody decided in time")
    assert scene.paid == []
    assert "nobody decided in time" in await scene.result()


async def test_edited_tool_runs_with_the_edit_alone(scene: Scene) -> None:
    running = await scene.asked()
    await scene.edit('{"to": "eve"}')
    await running
    assert (scene.paid, await scene.result()) == ([{"to": "eve"}], "paid")


@pytest.mark.parametrize("text", ['{"to": 7}', "{}", '{"to": "bob", "amount": 1}'])
async def test_edit_that_the_tool_cannot_take_has_none(scene: Scene, text: str) -> None:
    running = await scene.asked()
    await scene.edit(text)
    await running
    assert scene.paid == []
    assert "arguments are invalid" in await scene.result()


async def test_stop_instead_of_an_answer_has_none(scene: Scene) -> None:
    running = await scene.asked()
    await scene.page.get_by_role("button", name="Stop", exact=True).click()
    await running
    await expect(scene.page.locator("#chip")).to_contain_text("Stopped")
    assert scene.paid == []
    assert "interrupted" in await scene.result()


FORGERIES = """async ([run]) => {
    const socket = new WebSocket(`ws://${location.host}/connection/websocket`);
    await new Promise((opened) => { socket.onopen = opened; });
    const answers = new Map();
    let told = () => {};
    socket.onmessage = ({ data }) => {
        for (const line of data.split('\\n')) {
            const reply = JSON.parse(line);
            if (reply.id) answers.set(reply.id, reply);
            else if (!reply.push) socket.send('{}');
        }
        told();
    };
    const question = { topic: 't', run, tool_call_id: 'c1' };
    const event = { type: 'approval_decided', run, tool_call_id: 'c1', decision: 'approve', by: 'me' };
    const commands = [
        { connect: {} },
        ...['yes', 'Approve', '', null, true, ['approve'], { approve: true }, 'expired', 'pending'].map(
            (decision, index) => ({ rpc: { method: 'decide', data: { ...question, decision, id: `g${index}` } } })),
        ...[undefined, null, '', '{', '[1]', '7', 'null', { to: 'eve' }].map((text, index) =>
            ({ rpc: { method: 'decide', data: { ...question, decision: 'edit', arguments: text, id: `e${index}` } } })),
        { rpc: { method: 'decide', data: { ...question, run: 'another', decision: 'approve', id: 'r' } } },
        { rpc: { method: 'decide', data: { ...question, tool_call_id: 'c2', decision: 'approve', id: 'c' } } },
        { rpc: { method: 'approve', data: { ...question, id: 'm' } } },
        { publish: { channel: 't', data: event } },
    ];
    for (const [index, command] of commands.entries()) socket.send(JSON.stringify({ id: index + 1, ...command }));
    while (answers.size < commands.length) await new Promise((next) => { told = next; });
    return commands.map((command, index) => [JSON.stringify(command), answers.get(index + 1).error?.code ?? null]);
}"""


async def test_garbage_for_a_decision_has_none(scene: Scene) -> None:
    running = await scene.asked()
    (entry,) = (await scene.gateway.topic("t"))["mirror"]["runs"]
    answers = await scene.page.evaluate(FORGERIES, [entry["run"]])
    (_, connected), *refused = answers
    assert connected is None
    assert [command for command, code in refused if code is None] == []
    assert len(refused) == 21
    assert (await scene.gateway.topic("t"))["mirror"]["approvals"][0]["decision"] is None
    assert scene.paid == []
    # The question is as open as before, and the answer that counts is the first real one.
    for _ in range(2):
        await scene.page.get_by_role("button", name="Reject").click(delay=500)
    await running
    assert scene.paid == []
