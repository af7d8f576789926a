"""What a refusal by the gateway means for who typed a command, and what to do about it."""

import click

from gateway.errors import CommandError, DisconnectCode, DisconnectError, ErrorCode

__all__ = ["explained"]

_VERBS = {"cancel": "read,cancel", "decide": "read,decide", "tail": "history,read"}
"""Of the commands that need others than their name; those that look at the topic first need to read it."""


def explained(
    error: CommandError | DisconnectError, *, command: str, topic: str | None, token: bool, api_key: bool
) -> click.ClickException | None:
    """Say which verb is missing on which topic, or what is wrong with the token; None where it is about another thing.

    Args:
        error: What the gateway answered.
        command: The command's name.
        topic: The topic that it is about; None for no single one.
        token: Whether a token was given.
        api_key: Whether an API key was given.

    """
    verb = _VERBS.get(command, command)
    pattern = f"{topic or '*'}={verb}"
    make = f"gateway token USER --allow {_quoted(pattern)}, with the gateway's GATEWAY_TOKEN_SECRETS, makes one"
    give = "give it as --token or GATEWAY_TOKEN"
    wanted = f"a token that allows {verb!r} on {topic or 'the topics to be listed'}"
    code = error.code
    if code == ErrorCode.PERMISSION_DENIED and error.args[1] == "permission denied":  # not of one type of events
        who = "this token does not allow" if token else "without a token one may not use"
        return click.ClickException(f"{error}: {who} {verb!r} on {topic}; needed is {wanted}: {make}; {give}")
    if code == ErrorCode.TOKEN_EXPIRED:
        return click.ClickException(f"{error}; needed is a fresh one: {make}; {give}")
    if code == ErrorCode.UNAUTHORIZED and api_key and not token:
        return click.ClickException(
            f"{error}: --api-key (or GATEWAY_API_KEY) is none of the gateway's GATEWAY_API_KEYS"
        )
    if code == ErrorCode.UNAUTHORIZED and not token:
        return click.ClickException(f"{error}: needed is {wanted}: {make}; {give}")
    if code in {ErrorCode.UNAUTHORIZED, DisconnectCode.INVALID_TOKEN}:
        return click.ClickException(f"{error}; needed is {wanted}, signed with a key of this gateway: {make}; {give}")
    return None


def _quoted(pattern: str) -> str:
    return f"'{pattern}'" if "*" in pattern else pattern
