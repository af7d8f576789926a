"""The events of LangChain and LangGraph (``astream_events``, version 2) into a run."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.adapters.children import Children
from gateway.adapters.response import Adapter, Call, Response, Sink, compact, plain
from gateway.context.usage import Usage
from gateway.types import new_id

__all__ = ["LangChainEvents"]


class _Model(msgspec.Struct):
    """A model that is answering."""

    response: Response
    slots: dict[Any, Call] = {}


class LangChainEvents(Adapter):
    """Feeds the events of chat models and tools into a run; each sub-graph becomes a sub-agent.

    Chains and graphs themselves only frame what they do. Models that answer side by side write a message each. An
    interrupt and custom events are published as the agent's own (``langchain.interrupt``, ``langchain.custom``).
    """

    kept_as = "langchain"

    def __init__(self, run: Sink) -> None:
        super().__init__(run)
        self._models: dict[str, _Model] = {}
        """By the ids that LangChain has for their runs."""
        self._offered: dict[str, Call] = {}
        """Calls that no tool has begun, by their ids."""
        self._running: dict[str, tuple[str, str]] = {}
        """Of each tool run the call's id and the tool's name."""
        self._children = Children(run, _SubGraph)

    @property
    def resting(self) -> bool:
        """Whether nothing is half done."""
        return self.begun and not (self._models or self._offered or self._running or self._children)

    async def feed(self, event: Any) -> None:
        """Take the next event."""
        event = plain(event)
        kind = str(event.get("event") or "")
        node, inner = self._place(event)
        if inner:
            child = self._children.find(node) or await self._children.open(node, node.partition(":")[0])
            await child.feed(event)
            return
        if kind == "on_chain_end" and event.get("name") == node.partition(":")[0]:
            await self._children.close(node)
        await self._take(kind, str(event.get("run_id") or ""), event)

    async def finish(self) -> None:
        """Take the end of the stream.

        Raises:
            ProviderError: A model's answer has begun and not ended.

        """
        await self._children.close_all()
        if self._models:
            self._response = next(iter(self._models.values())).response
        await super().finish()

    async def abandon(self, error: BaseException) -> None:
        """End the sub-graphs that are still running by an error."""
        await self._children.abandon(error)

    def _place(self, event: Mapping[str, Any]) -> tuple[str, bool]:
        """Give the node that an event comes from, and whether it comes from a graph inside of that."""
        place = str((event.get("metadata") or {}).get("langgraph_checkpoint_ns") or "")
        node, _, rest = place.partition("|")
        return node, bool(rest)

    async def _take(self, kind: str, run_id: str, event: Mapping[str, Any]) -> None:
        data = event.get("data") or {}
        match kind:
            case "on_chat_model_start" | "on_llm_start":
                await self._start_model(run_id, event)
            case "on_chat_model_stream" | "on_llm_stream":
                await self._grow(await self._start_model(run_id, event), data.get("chunk"))
            case "on_chat_model_end" | "on_llm_end":
                await self._end_model(run_id, event, data.get("output"))
            case "on_tool_start":
                await self._start_tool(run_id, str(event.get("name") or ""), data.get("input"))
            case "on_tool_end":
                await self._end_tool(run_id, data.get("output"), error=False)
            case "on_tool_error":
                await self._end_tool(run_id, str(data.get("error")), error=True)
            case "on_chain_stream":
                await self._interrupted(data.get("chunk"))
            case "on_custom_event":
                await self._keep("custom", {"name": event.get("name"), "data": data})
            case _ if not kind.startswith(("on_chain_", "on_prompt_", "on_parser_", "on_retriever_")):
                await self._keep(kind, {"name": event.get("name"), "data": data})

    async def _start_model(self, run_id: str, event: Mapping[str, Any]) -> _Model:
        known = self._models.get(run_id)
        if known is None:
            self.begun = True
            model = str((event.get("metadata") or {}).get("ls_model_name") or "")
            response = Response(self._sink, call=run_id, model=model, message=new_id())
            known = self._models[run_id] = _Model(response=response)
        return known

    async def _grow(self, model: _Model, chunk: Any) -> None:
        if chunk is None:
            return
        await _add_content(model.response, getattr(chunk, "content", None) or getattr(chunk, "text", ""))
        extra = getattr(chunk, "additional_kwargs", None) or {}
        await model.response.thinking(str(extra.get("reasoning_content") or ""))
        for piece in getattr(chunk, "tool_call_chunks", None) or ():
            await self._grow_call(model, piece)

    async def _grow_call(self, model: _Model, piece: Mapping[str, Any]) -> None:
        call_id, name, text = (str(piece.get(field) or "") for field in ("id", "name", "args"))
        slot = piece.get("index")
        if slot is None:
            slot = len(model.slots) if call_id or not model.slots else len(model.slots) - 1
        known = model.slots.get(slot)
        if known is None:
            opened = Call(id=call_id, name=name, pieces=[text] if text else [])
            model.slots[slot] = await model.response.open_call(opened)
        else:
            await model.response.grow_call(known, text, id=call_id, name=name)

    async def _end_model(self, run_id: str, event: Mapping[str, Any], output: Any) -> None:
        model = await self._start_model(run_id, event)
        del self._models[run_id]
        response = model.response
        if not (response.has_text or response.has_thinking or response.calls):
            # A model that does not stream gives all at its end.
            await _add_content(response, getattr(output, "content", None) or getattr(output, "text", ""))
        for call in getattr(output, "tool_calls", None) or ():
            await self._settle(response, call)
        about = getattr(output, "response_metadata", None) or {}
        reason = about.get("finish_reason") or about.get("stop_reason")
        if reason:
            response.metadata["finish_reason"] = reason
        refusal = (getattr(output, "additional_kwargs", None) or {}).get("refusal")
        if refusal:
            response.metadata["refusal"] = refusal
        usage = getattr(output, "usage_metadata", None)
        if usage:
            await response.usage(_usage(usage, tool_calls=len(response.calls)))
        await self._write(response)
        self._offered |= {call.id: call for call in response.calls if not call.server}

    @staticmethod
    async def _settle(response: Response, call: Mapping[str, Any]) -> None:
        known = next((one for one in response.calls if one.id == call.get("id")), None)
        if known is None:
            arguments = compact(call.get("args") or {})
            opened = Call(id=str(call.get("id") or ""), name=str(call.get("name") or ""), pieces=[arguments])
            await response.open_call(opened)

    async def _start_tool(self, run_id: str, name: str, given: Any) -> None:
        call = self._called(name, given)
        if call is None:
            # A tool that no model asked for: the chain itself runs it.
            arguments = compact(given) if isinstance(given, Mapping) else compact({"input": str(given)})
            call = Call(id=run_id, name=name, pieces=[arguments])
        self._offered.pop(call.id, None)
        self._running[run_id] = (call.id, name)
        self.begun = True
        await self._sink.tool_call(call.id, name, call.arguments)

    def _called(self, name: str, given: Any) -> Call | None:
        """Find the call that a tool answers; the event tells only its name and arguments."""
        same = [call for call in self._offered.values() if call.name == name]
        wanted = compact(given) if isinstance(given, Mapping) else ""
        return next((call for call in same if _canonical(call.arguments) == wanted), same[0] if same else None)

    async def _end_tool(self, run_id: str, output: Any, *, error: bool) -> None:
        call_id, name = self._running.pop(run_id, (run_id, ""))
        # A tool may give a command for the graph that carries its message.
        update = getattr(output, "update", None)
        messages = update.get("messages") if isinstance(update, Mapping) else None
        message = next(iter(messages), output) if isinstance(messages, Sequence) else output
        content = getattr(message, "content", message)
        failed = error or getattr(message, "status", "success") == "error"
        text = content if isinstance(content, str) else compact(content)
        await self._sink.tool_result(call_id, name, text, error=failed)

    async def _interrupted(self, chunk: Any) -> None:
        for interrupt in (chunk.get("__interrupt__") if isinstance(chunk, Mapping) else None) or ():
            await self._keep("interrupt", {"id": interrupt.id, "value": interrupt.value})


class _SubGraph(LangChainEvents):
    """As the graph around it, one level further in."""

    depth = 1

    def __init__(self, run: Sink) -> None:
        super().__init__(run)
        self._children = Children(run, lambda child: _deeper(child, self.depth + 1))

    def _place(self, event: Mapping[str, Any]) -> tuple[str, bool]:
        place = str((event.get("metadata") or {}).get("langgraph_checkpoint_ns") or "").split("|")
        own = place[self.depth] if len(place) > self.depth else ""
        return own, len(place) > self.depth + 1


def _deeper(run: Sink, depth: int) -> Adapter:
    adapter = _SubGraph(run)
    adapter.depth = depth
    return adapter


async def _add_content(response: Response, content: Any) -> None:
    """Add the content of a message: text, or blocks, whose forms are the providers'."""
    if isinstance(content, str):
        await response.text(content)
        return
    for block in content or ():
        if isinstance(block, str):
            await response.text(block)
            continue
        match block.get("type"):
            case "text" | "text_delta" | "output_text":
                await response.text(str(block.get("text") or ""))
                notes = block.get("annotations") or block.get("citations")
                if notes:
                    response.metadata.setdefault("citations", []).extend(notes)
            case "thinking" | "reasoning" | "reasoning_content":
                thought = block.get("thinking") or block.get("reasoning") or block.get("text")
                await response.thinking(thought if isinstance(thought, str) else "")
                if block.get("signature"):
                    response.reasoning.append({"type": "thinking", "signature": block["signature"]})
            case "tool_use" | "tool_call" | "tool_call_chunk" | "input_json_delta" | "function_call":
                continue  # they come as tool calls, too
            case _:
                response.metadata.setdefault("items", []).append(dict(block))


def _canonical(arguments: str) -> str:
    try:
        return compact(msgspec.json.decode(arguments))
    except msgspec.DecodeError:
        return arguments


def _usage(raw: Mapping[str, Any], *, tool_calls: int) -> Usage:
    details = raw.get("input_token_details") or {}
    sent, written = int(raw.get("input_tokens") or 0), int(raw.get("output_tokens") or 0)
    return Usage(
        requests=1,
        tool_calls=tool_calls,
        input_tokens=sent,
        output_tokens=written,
        total_tokens=int(raw.get("total_tokens") or sent + written),
        cache_creation_input_tokens=int(details.get("cache_creation") or 0),
        cache_read_input_tokens=int(details.get("cache_read") or 0),
    )
