"""Patterns of topic names: ``*``, ``?``, ``[a-c]``, ``[!a]``, ``{one,two}``."""

import fnmatch
import re

__all__ = ["compile_glob"]

MAX_ALTERNATIVES = 100
"""That the braces of one pattern may come to."""

_BRACES = re.compile(r"\{([^{}]*)\}")


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Make a regular expression of a pattern; "" names everything.

    Raises:
        ValueError: Its braces come to too many alternatives.

    """
    ahead, plain = [pattern or "*"], []
    while ahead:
        one = ahead.pop()
        braces = _BRACES.search(one)
        if braces is None:
            plain.append(one)
        else:
            ahead += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
        if len(ahead) + len(plain) > MAX_ALTERNATIVES:
            raise ValueError(f"expected a pattern with at most {MAX_ALTERNATIVES} alternatives")
    return re.compile("|".join(fnmatch.translate(one) for one in plain))
