"""Who asks, and where a person's name in events comes from."""

from urllib.parse import quote

import msgspec

from gateway.grants import Identity

__all__ = ["Caller"]


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks.

    Attributes:
        client: The connection's id.
        identity: The user, and what it may do.

    """

    client: str
    identity: Identity

    @property
    def name(self) -> str:
        """How events name the user: the `by` of every action."""
        return self.identity.user or "anonymous"

    def writer(self, client_id: str) -> str:
        """Name the one-shot writer of the action that this user gave an id (STORE.md 1)."""
        return f"u/{quote(self.name, safe='')}/{quote(client_id, safe='')}"
