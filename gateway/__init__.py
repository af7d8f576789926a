"""Exact live mirrors of AI agent runs: Redis pub/sub in, websockets out."""

__version__ = "0.1.0"
