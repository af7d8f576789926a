"""Answers over HTTP: JSON, and errors in the form of PROTOCOL.md 8."""

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from gateway.codec import encode_json
from gateway.errors import CommandError, ErrorCode

__all__ = ["command_error", "http_error", "json_answer", "json_text"]

_STATUS = {
    ErrorCode.UNAUTHORIZED: 401,
    ErrorCode.TOKEN_EXPIRED: 401,
    ErrorCode.UNKNOWN_TOPIC: 404,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.TOO_MANY_REQUESTS: 429,
    ErrorCode.INTERNAL: 503,
    ErrorCode.UNRECOVERABLE_POSITION: 410,
}


def json_answer(value: Any, *, status: int = 200) -> Response:
    """Answer with a value as JSON."""
    return json_text(encode_json(value), status=status)


def json_text(text: bytes, *, status: int = 200) -> Response:
    """Answer with JSON that is encoded already."""
    return Response(text, status_code=status, media_type="application/json", headers={"cache-control": "no-store"})


async def command_error(_request: Request, error: Exception) -> Response:
    """Answer what was refused; an exception handler."""
    if not isinstance(error, CommandError):
        raise error
    status = _STATUS.get(ErrorCode(error.code), 400)
    answer = json_answer({"error": {"code": int(error.code), "message": error.message}}, status=status)
    if status == _STATUS[ErrorCode.TOO_MANY_REQUESTS]:
        answer.headers["retry-after"] = "1"
    return answer


async def http_error(_request: Request, error: Exception) -> Response:
    """Answer what Starlette refuses; an exception handler."""
    if not isinstance(error, HTTPException):
        raise error
    return json_answer({"error": {"code": error.status_code, "message": error.detail}}, status=error.status_code)
