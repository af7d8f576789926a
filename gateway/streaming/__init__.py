"""Topics for readers without websockets: streams over HTTP (PROTOCOL.md 9)."""

from gateway.streaming.routes import routes

__all__ = ["routes"]
