"""An approval's field in a topic's state: `a:<run>/<tool_call_id>` = `<decision|pending> <deadline> <by, JSON>`."""

import re
from typing import Any

import msgspec

from gateway.codec import encode_json

__all__ = ["ApprovalState", "approval_field"]

_PENDING = "pending"
_TEXT = re.compile(r"(\S+) (\d+) (.+)\Z", re.DOTALL)


def approval_field(run: str, tool_call_id: str) -> str:
    """Name the state field of an approval (STORE.md 1)."""
    return f"a:{run}/{tool_call_id}"


class ApprovalState(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of an approval.

    Attributes:
        deadline: Unix time in ms on the broker's clock, until which it can be decided; 0 for ever.
        decision: What was decided: ``approve``, ``reject``, ``edit`` or ``expired``; None while it is pending.
        by: Who decided; None where nobody did.

    """

    deadline: int
    decision: str | None = None
    by: Any = None

    @classmethod
    def parse(cls, text: str) -> "ApprovalState":
        """Read the field's value.

        Raises:
            ValueError: It has another form.

        """
        match = _TEXT.match(text)
        if match is None:
            raise ValueError(f"expected <decision> <deadline> <by>, got {text!r:.200}")
        decision = None if match[1] == _PENDING else match[1]
        return cls(deadline=int(match[2]), decision=decision, by=msgspec.json.decode(match[3]))

    def decided(self, decision: str, by: Any) -> "ApprovalState":
        """Give it with a decision."""
        return msgspec.structs.replace(self, decision=decision, by=by)

    @property
    def text(self) -> str:
        """The field's value."""
        return f"{self.decision or _PENDING} {self.deadline} {encode_json(self.by).decode()}"
