"""Topics out, in the words of other protocols: one dialect each, pure."""

from collections.abc import Mapping

from gateway.dialects.ag_ui import AgUi
from gateway.dialects.ai_sdk import AiSdk
from gateway.dialects.dialect import Dialect
from gateway.dialects.openai_responses import OpenAiResponses
from gateway.dialects.translator import Translator

__all__ = ["DIALECTS", "AgUi", "AiSdk", "Dialect", "OpenAiResponses", "Translator"]

DIALECTS: Mapping[str, type[Dialect]] = {"ag-ui": AgUi, "ai-sdk": AiSdk, "openai-responses": OpenAiResponses}
"""By their names in ``?dialect=``."""
