"""Who asks, and where a person's name in events comes from."""

from urllib.parse import quote

import msgspec

__all__ = ["Caller"]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks.

    Attributes:
        client: The connection's id.
        user: The user's id; "" for an anonymous one.

    """

    client: str
    user: str = ""

    @property
    def name(self) -> str:
        """How events name the user: the `by` of every action."""
        return self.user or "anonymous"

    def writer(self, client_id: str) -> str:
        """Name the one-shot writer of the action that this user gave an id (STORE.md 1)."""
        return f"u/{quote(self.name, safe='')}/{quote(client_id, safe='')}"
