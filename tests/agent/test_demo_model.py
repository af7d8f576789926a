import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.agent.demo_model import DemoModel, _calls, _markdown
from gateway.agent.loop import answer
from gateway.agent.tools import TOOLS, evaluate
from gateway.broker.redis import RedisBroker
from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.people import decide
from tests.publishing import events, mirror, until

TOPIC = "chat:1"


async def test_answer_uses_what_the_tools_found(publisher: Publisher, broker: RedisBroker) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("What is 3 * (4 + 5)?"))
        message = await answer(run, DemoModel(rate=0), TOOLS)
    assert message is not None
    for part in ("## What I found", ">>> 3 * (4 + 5)\n27", "| words | 5 |", "- longest word: *What*"):
        assert part in message.text
    ran = [event["name"] for event in await events(broker, TOPIC) if event["type"] == "tool_call"]
    assert sorted(ran) == ["calculate", "word_statistics"]
    first = (await mirror(broker, TOPIC))["context"]["events"][1]["data"]
    assert not any(character.isdigit() for character in first["thinking"])
    assert first["metadata"]["thinking_ms"] >= 0
    assert run.context.usage.requests == 2


async def test_message_is_streamed_word_by_word(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        message = await DemoModel(rate=0).respond(run, [])
        assert [entry.text for entry in run.context.entries] == [message.text]
        words = [word async for word in DemoModel(rate=0)._words(message.text)]
    assert "".join(words) == message.text
    assert max(len(word.split()) for word in words) == 1


async def test_second_message_is_answered_by_its_own_results(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        for asked, found in (("2 * 2", "\n4\n"), ("5 * 5", "\n25\n")):
            await run.add_message(Message.user(asked))
            message = await answer(run, DemoModel(rate=0), TOOLS)
            assert message is not None
            assert found in message.text


@pytest.mark.parametrize(
    ("asked", "expression"),
    [
        ("what is 12*3", "12*3"),
        ("(1 + 2) / 4 please", "(1 + 2) / 4"),
        ("so 2 ** 8?", "2 ** 8"),
        ("7 - -2", "7 - -2"),
        ("what is 6 times 7", "6 * 7"),
        ("6 times 7 plus 2 divided by 4", "6 * 7 + 2 / 4"),
        ("10 minus 4?", "10 - 4"),
        ("12×3", "12 * 3"),
        ("3 multiplied by (1 plus 2)", "3 * (1 + 2)"),
        ("4x5", "4 * 5"),
    ],
)
def test_expression_is_found_in_the_message(asked: str, expression: str) -> None:
    (first, _) = _calls(asked)
    assert first.name == "calculate"
    assert first.arguments == f'{{"expression":"{expression}"}}'
    evaluate(expression)


@given(st.text(max_size=3000))
def test_any_message_gets_calls_and_an_answer(asked: str) -> None:
    assert len(_calls(asked)) == 2
    assert _markdown(asked, {}).startswith("## What I found")


def test_long_messages_of_digits_are_no_burden() -> None:
    assert len(_calls("1 " * 30_000)) == 2
    assert len(_calls("1+" * 30_000)) == 2


@pytest.mark.parametrize(
    ("decision", "found"),
    [
        ({"decision": "approve"}, "It went to *Ann*"),
        ({"decision": "edit", "arguments": '{"to":"Eve","text":"Hello"}'}, "> Hello"),
        ({"decision": "reject", "reason": "too late"}, "not approved, too late"),
    ],
)
async def test_postcard_waits_for_somebody_to_agree(
    publisher: Publisher, broker: RedisBroker, decision: dict[str, str], found: str
) -> None:
    async def agree() -> None:
        async def asked() -> list[dict[str, str]]:
            approvals: list[dict[str, str]] = (await mirror(broker, TOPIC))["approvals"]
            return approvals

        (question,) = await until(asked)
        assert question["name"] == "send_postcard"
        await decide(broker, TOPIC, run.id, question["tool_call_id"], **decision)

    run = publisher.run(TOPIC, agent="a")
    async with run:
        agreeing = asyncio.create_task(agree())
        await run.add_message(Message.user("Please send a postcard to Ann"))
        message = await answer(run, DemoModel(rate=0), TOOLS)
        await agreeing
    assert message is not None
    assert found in message.text


async def test_failed_tool_is_told(publisher: Publisher) -> None:
    async with publisher.run(TOPIC, agent="a") as run:
        await run.add_message(Message.user("1 / 0"))
        message = await answer(run, DemoModel(rate=0), TOOLS)
    assert message is not None
    assert "did not work" in message.text
