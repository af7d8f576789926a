"""A skill: instructions and tools that a run may switch on."""

from typing import Any, Literal

import msgspec

__all__ = ["Skill"]


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    """What a skill is; the context only lists the active ones.

    Attributes:
        name: Its name.
        description: What it is good for.
        tags: Words to find it by.
        group: The group it belongs to; None for none.
        instructions: What the model is told while it is active.
        tools: The tools it brings.
        activation: ``manual``, ``auto``, ``on_match``, ``on_tag`` or ``on_glob``.
        scope: Where it was defined.
        status: ``active`` or ``inactive``.
        priority: Low ones come first.

    """

    name: str
    description: str = ""
    tags: tuple[str, ...] = ()
    group: str | None = None
    instructions: str = ""
    tools: tuple[Any, ...] = ()
    activation: Literal["manual", "auto", "on_match", "on_tag", "on_glob"] = "manual"
    scope: str | None = None
    status: Literal["active", "inactive"] = "active"
    priority: int = 100
