"""The HTTP API of backends, in the form of Centrifugo's (PROTOCOL.md 10)."""

from gateway.api.methods import Methods
from gateway.api.routes import routes

__all__ = ["Methods", "routes"]
