"""Whether the settings of a gateway fit together, and the machine that it runs on."""

import os
import resource
from typing import Any

from gateway.admission import Admission
from gateway.auth import Authority, listed
from gateway.finding import Finding
from gateway.origin import is_loopback
from gateway.settings import Settings, SettingsError

__all__ = ["check_machine", "check_settings", "idle_settings"]

SPARE_FILES = 100
"""Files that a process needs beside one for each connection."""

_GUESSED = ("change", "secret", "password", "example", "default", "test", "12345", "api-key")
"""What stands in keys that somebody has made up."""


def check_settings(settings: Settings) -> list[Finding]:
    """Look for what lets strangers in, and for what contradicts itself; no finding shows a secret."""
    found: list[Finding] = []
    try:
        Admission(settings, Authority(settings))
    except SettingsError as error:
        found.append(_finding("error", "keys", str(error), "correct it: gateway serve refuses it, too"))
    found += _access(settings)
    for name in ("api_keys", "token_secrets"):
        weak = [number for number, key in enumerate(listed(getattr(settings, name)), 1) if _is_weak(key)]
        if weak:
            advice = "make one with gateway token --new-secret; a made-up key is guessed"
            found.append(_finding("error", f"GATEWAY_{name.upper()}", f"number {weak[0]} looks made up", advice))
    for name, why in idle_settings(settings).items():
        advice = "set GATEWAY_TOKEN_SECRETS, GATEWAY_TOKEN_PUBLIC_KEYS or GATEWAY_TOKEN_JWKS, or remove it"
        found.append(_finding("warning", name, why, advice))
    if "*" in listed(settings.allowed_origins):
        advice = "name the pages that may connect, as https://example.com"
        found.append(_finding("warning", "GATEWAY_ALLOWED_ORIGINS", "* lets every web page connect", advice))
    if any(network.endswith("/0") for network in listed(settings.trusted_proxies)):
        advice = "name the networks of your proxies: anybody else could claim any address"
        found.append(_finding("warning", "GATEWAY_TRUSTED_PROXIES", "everybody is believed", advice))
    if settings.workers > 1 and not settings.metrics_port:
        advice = "set it: workers share the gateway's port, so their metrics cannot be told apart there"
        found.append(_finding("note", "GATEWAY_METRICS_PORT", "none", advice))
    return found


def idle_settings(settings: Settings) -> dict[str, str]:
    """Give the settings about tokens that do nothing, as no key is set by which a token could be known, and why."""
    if settings.token_secrets or settings.token_public_keys or settings.token_jwks:
        return {}
    about_users = ("user_grants", "token_audience", "token_issuer")
    names = (*about_users, "anonymous_grants", "grants_file") if settings.keyless else about_users
    why = (
        "no keys are set, and everybody may do everything"
        if settings.keyless
        else "no key is set that tokens are signed with"
    )
    return {f"GATEWAY_{name.upper()}": f"set, but without effect: {why}" for name in names if getattr(settings, name)}


def _access(settings: Settings) -> list[Finding]:
    loopback = is_loopback(settings.host)
    if settings.keyless and not loopback:
        level, found = "error", f"no keys are set, and {settings.host} is reached from elsewhere"
        advice = "set GATEWAY_TOKEN_SECRETS or the like, or GATEWAY_API_KEYS; --insecure lets everybody do everything"
    elif settings.keyless:
        level, found = "note", "no keys are set: everybody on this machine may do everything"
        advice = "set GATEWAY_TOKEN_SECRETS or the like before others come"
    elif not loopback:
        level, found = "note", f"by token or API key, on {settings.host}"
        advice = "put TLS in front: without it tokens and texts can be read on the way"
    else:
        level, found, advice = "ok", "by token or API key", ""
    result = [_finding(level, "access", found, advice)]
    if settings.insecure and not settings.keyless:
        result.append(
            _finding(
                "warning",
                "GATEWAY_INSECURE",
                "set beside keys",
                "remove it: it lets everybody in on the day that the keys are missing",
            )
        )
    return result


def check_machine(settings: Settings, *, connections: int) -> list[Finding]:
    """Compare what is expected with what this machine gives.

    Args:
        settings: How many workers there are.
        connections: How many connections all of them together should hold.

    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections // settings.workers + SPARE_FILES
    found = []
    if soft != resource.RLIM_INFINITY and soft < needed:
        more = f"; the limit of that is {hard}" if hard != resource.RLIM_INFINITY and hard < needed else ""
        advice = f"ulimit -n {needed}, or LimitNOFILE={needed} in the systemd unit{more}"
        about = f"{soft}, for {connections} connections to {settings.workers} processes"
        found.append(_finding("warning", "open files", about, advice))
    else:
        found.append(
            _finding("ok", "open files", f"{'no limit' if soft == resource.RLIM_INFINITY else soft} a process")
        )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if settings.workers > cores:
        advice = f"set at most {cores}: more share them, and hear every topic once more"
        found.append(_finding("warning", "workers", f"{settings.workers} on {cores} cores", advice))
    else:
        found.append(_finding("ok", "workers", f"{settings.workers} on {cores} cores"))
    return found


def _is_weak(key: str) -> bool:
    return len(set(key)) < 8 or any(word in key.lower() for word in _GUESSED)


def _finding(level: Any, about: str, found: str, advice: str = "") -> Finding:
    return Finding(level=level, about=about, found=found, advice=advice)
