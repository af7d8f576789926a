"""How the arguments of a tool call go back to the provider whose model wrote them."""

import msgspec

from gateway.codec import encode_json
from gateway.context.messages import ToolCall

__all__ = ["sent_arguments"]


def sent_arguments(call: ToolCall) -> str:
    """Give a call's arguments as the JSON text of an object.

    What the model wrote stays as it was in the conversation; but servers refuse every request that has arguments which
    are no JSON object somewhere in its history, so there they go as the text under ``invalid_arguments``.

    Args:
        call: The call.

    """
    given = call.arguments
    if isinstance(given, dict):
        return encode_json(given).decode()
    try:
        if isinstance(msgspec.json.decode(given or "{}"), dict):
            return given or "{}"
    except (msgspec.DecodeError, RecursionError, TypeError, UnicodeEncodeError):
        pass
    return encode_json({"invalid_arguments": str(given)}).decode()
