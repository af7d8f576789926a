"""What a gateway knows a client by."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gateway.errors import UnreachableError

__all__ = ["Token", "present"]

logger = logging.getLogger(__name__)

Token: TypeAlias = str | Callable[[], Awaitable[str]] | None
"""A token, an async function that makes one that is valid now, or nothing."""


async def present(token: Token, *, url: str) -> str | None:
    """Give the token to show now.

    Raises:
        UnreachableError: The function failed, which may pass.

    """
    if token is None or isinstance(token, str):
        return token
    try:
        return await token()
    except Exception as error:
        logger.exception("the function that makes tokens failed")
        raise UnreachableError(url=url, reason="no token could be made for it", temporary=True) from error
