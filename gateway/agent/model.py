"""What the loop needs of a model."""

from collections.abc import Sequence
from typing import Protocol

from gateway.context.messages import Message
from gateway.context.tools import Tool
from gateway.run import Run

__all__ = ["Model"]


class Model(Protocol):
    """Something that continues a conversation."""

    @property
    def name(self) -> str:
        """Its name, for ``agent_start``."""

    async def respond(self, run: Run, tools: Sequence[Tool]) -> Message:
        """Continue the conversation by one message.

        Streams text, thinking and tool calls into the run as they come, reports what it cost, ends the message in the
        run's context and returns it.

        Args:
            run: Its context is the conversation so far.
            tools: What the message may call.

        """
