"""The HTTP API of backends."""
