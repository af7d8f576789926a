"""Whether a Redis or Valkey is fit to be the broker: asked by its own commands, one server at a time."""

import re
import secrets
import statistics
import time
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from gateway.finding import Finding

__all__ = ["check_broker"]

PATIENCE = 5.0
"""Seconds that a server may take to connect, and to answer."""
PINGS = 20
SLOW = 0.005
"""Seconds of a round trip from which on people notice it in each action and recovery."""
SKEW = 1.0
"""Seconds between the clocks of the server and of this machine; tokens are checked by this machine's."""
OLDEST = {"redis": (6, 2), "valkey": (7, 2)}
PUBSUB_HARD = 8 * 1024 * 1024
"""Bytes that the server should hold for a gateway that reads late, before it cuts it off."""
FULL = 0.9
"""Of the memory that the server may use."""


async def check_broker(url: str, *, key_prefix: str, tag: str = "") -> list[Finding]:
    """Examine a server.

    Args:
        url: ``redis://``, ``rediss://`` or ``unix://`` of one server.
        key_prefix: First part of the gateways' keys and channels.
        tag: Of a cluster's master a hash tag whose slot it has; "" elsewhere.

    """
    client = Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE, decode_responses=True)
    try:
        return await _Checkup(client, key_prefix, tag or secrets.token_hex(6)).run()
    finally:
        await client.aclose()


class _Checkup:
    def __init__(self, client: Any, key_prefix: str, tag: str) -> None:
        self._client = client
        self._prefix = key_prefix
        self._tag = tag
        self._found: list[Finding] = []

    async def run(self) -> list[Finding]:
        try:
            await self._client.ping()
        except AuthenticationError as error:
            self._error("reachable", f"it does not let us in: {error}", "set user and password in the Redis URL")
            return self._found
        except NoPermissionError:
            pass  # it lets us in; which rights are missing is said below
        except (RedisError, OSError) as error:
            self._error(
                "reachable", str(error), "start the server, or correct GATEWAY_REDIS_URL; is a firewall between?"
            )
            return self._found
        self._ok("reachable", "it answers")
        try:
            facts = await self._client.info()
        except NoPermissionError:
            self._error("rights", "INFO is not allowed", "allow it: ACL SETUSER … +info")
            return self._found
        try:
            self._version(facts)
            self._role(facts)
            await self._latency()
            await self._clock()
            self._memory(facts)
            await self._persistence(facts)
            await self._buffers()
            await self._notifications()
            await self._rights()
        except (RedisError, OSError) as error:
            self._error("reachable", f"it stopped answering: {error}", "look into the server's log")
        return self._found

    def _version(self, facts: Mapping[str, Any]) -> None:
        kind = "valkey" if facts.get("server_name") == "valkey" else "redis"
        text = str(facts.get("valkey_version" if kind == "valkey" else "redis_version", ""))
        found = f"{kind.title()} {text}"
        if tuple(int(part) for part in re.findall(r"\d+", text)[:2]) < OLDEST[kind]:
            oldest = ".".join(map(str, OLDEST[kind]))
            self._error("version", found, f"upgrade to {kind.title()} {oldest} or newer")
        else:
            self._ok("version", found)

    def _role(self, facts: Mapping[str, Any]) -> None:
        if facts.get("role") != "master":
            self._error("role", "it is a replica", "name the master in the Redis URL")
            return
        replicas = int(facts.get("connected_slaves", 0))
        if not replicas:
            self._add("note", "replicas", "none", "with one, and a Sentinel, topics outlive the loss of this machine")
            return
        offset = int(facts["master_repl_offset"])
        behind = [offset - int(facts[f"slave{number}"]["offset"]) for number in range(replicas)]
        if max(behind) > 1024 * 1024:
            self._add("warning", "replicas", f"{replicas}, one of them {max(behind)} bytes behind", "is its link slow?")
        else:
            self._ok("replicas", str(replicas))

    async def _latency(self) -> None:
        took = []
        for _ in range(PINGS):
            began = time.perf_counter()
            try:
                await self._client.ping()
            except NoPermissionError:
                return
            took.append(time.perf_counter() - began)
        median, worst = statistics.median(took), max(took)
        found = f"{1000 * median:.2f} ms for a round trip, {1000 * worst:.2f} ms at worst"
        if median > SLOW:
            self._add("warning", "latency", found, "run gateways and the server in the same network")
        else:
            self._ok("latency", found)

    async def _clock(self) -> None:
        before = time.time()
        seconds, micros = await self._client.time()
        skew = seconds + micros / 1e6 - (before + time.time()) / 2
        if abs(skew) > SKEW:
            found = f"{abs(skew):.1f} s {'ahead' if skew > 0 else 'behind'}"
            self._add("warning", "clock", found, "run a time service (NTP) on both machines")
        else:
            self._ok("clock", f"within {abs(skew):.3f} s of this machine's")

    def _memory(self, facts: Mapping[str, Any]) -> None:
        limit, policy = int(facts.get("maxmemory", 0)), str(facts.get("maxmemory_policy", "noeviction"))
        advice = "set maxmemory-policy noeviction: anything else lets the server throw away topics, in silence"
        if policy != "noeviction":
            self._add("error" if limit else "warning", "maxmemory-policy", policy, advice)
        else:
            self._ok("maxmemory-policy", policy)
        used = int(facts.get("used_memory", 0))
        if not limit:
            advice = "set it below the machine's memory: then writes are refused, instead of the server being killed"
            self._add("note", "maxmemory", "no limit", advice)
        elif used > FULL * limit:
            advice = "give it more, delete topics, or lower --max-bytes; at the limit nothing can be written"
            self._add("warning", "maxmemory", f"{used} of {limit} bytes are used", advice)
        else:
            self._ok("maxmemory", f"{used} of {limit} bytes are used")

    async def _persistence(self, facts: Mapping[str, Any]) -> None:
        if facts.get("aof_last_write_status") == "err" or facts.get("rdb_last_bgsave_status") == "err":
            self._error("persistence", "its last save failed", "look into the server's log: is the disk full?")
            return
        if int(facts.get("aof_enabled", 0)):
            self._ok("persistence", "append-only file")
            return
        saves = await self._setting("save")
        advice = "set appendonly yes (and appendfsync everysec): a crash then loses a second at most"
        if saves == "":
            found = "none: a crash loses every topic but for what living runs write again"
            self._add("warning", "persistence", found, advice)
        else:
            self._add("warning", "persistence", "snapshots only: a crash loses what came after the last one", advice)

    async def _buffers(self) -> None:
        text = await self._setting("client-output-buffer-limit")
        if text is None:
            self._unknown("client-output-buffer-limit")
            return
        words = text.split()
        place = words.index("pubsub")
        hard, soft = int(words[place + 1]), int(words[place + 2])
        found = f"pubsub {hard} {soft} {words[place + 3]}"
        if 0 < hard < PUBSUB_HARD or 0 < soft < PUBSUB_HARD // 8:
            advice = (
                "set client-output-buffer-limit 'pubsub 128mb 32mb 60': a busy gateway is cut off and has to read again"
            )
            self._add("warning", "client-output-buffer-limit", found, advice)
        else:
            self._ok("client-output-buffer-limit", found)

    async def _notifications(self) -> None:
        text = await self._setting("notify-keyspace-events")
        if text:
            advice = "gateways need none: each write costs a second message"
            self._add("note", "notify-keyspace-events", text, advice)

    async def _rights(self) -> None:
        """Do once what gateways do (README, Redis), on a key of our own."""
        key = f"{self._prefix}:doctor:{{{self._tag}}}"
        script = "redis.call('SET', KEYS[1], ARGV[1], 'PX', 1000) return redis.call('GET', KEYS[1])"
        sha = None
        try:
            sha = await self._client.script_load(script)
        except NoPermissionError as error:
            self._denied("SCRIPT|LOAD", error)
        # In this order no key has two types.
        tried: list[tuple[str, ...]] = [
            ("EVAL", script, "1", key, "x"),
            *([("EVALSHA", sha, "1", key, "x")] if sha else []),
            ("SET", key, "x"),
            ("GET", key),
            ("STRLEN", key),
            ("PEXPIRE", key, "10000"),
            ("PTTL", key),
            ("PERSIST", key),
            ("EXISTS", key),
            ("UNLINK", key),
            ("HSET", key, "f", "1"),
            ("HSETNX", key, "f", "1"),
            ("HINCRBY", key, "f", "1"),
            ("HGET", key, "f"),
            ("HMGET", key, "f"),
            ("HGETALL", key),
            ("HKEYS", key),
            ("HLEN", key),
            ("HEXISTS", key, "f"),
            ("HSCAN", key, "0"),
            ("HDEL", key, "f"),
            ("UNLINK", key),
            ("XADD", key, "1-1", "f", "1"),
            ("XLEN", key),
            ("XRANGE", key, "-", "+"),
            ("XTRIM", key, "MAXLEN", "0"),
            ("UNLINK", key),
            ("ZADD", key, "1", "m"),
            ("ZCARD", key),
            ("ZCOUNT", key, "0", "1"),
            ("ZRANGEBYSCORE", key, "0", "1"),
            ("ZREVRANGEBYSCORE", key, "1", "0"),
            ("ZREMRANGEBYSCORE", key, "0", "0"),
            ("ZREM", key, "m"),
            ("UNLINK", key),
            ("WAIT", "0", "1"),
            ("PUBLISH", key, "x"),
        ]
        denied: list[str] = []
        for command in tried:
            try:
                await self._client.execute_command(*command)
            except NoPermissionError as error:
                if command[0] not in denied:
                    denied.append(command[0])
                    self._denied(command[0], error)
            except ResponseError as error:
                self._error("rights", f"{command[0]}: {error}", "is it a Redis with all its commands?")
        await self._hear(key, denied)
        if not denied and sha:
            self._ok("rights", f"all that gateways do on keys and channels of {self._prefix}:…")

    async def _hear(self, channel: str, denied: list[str]) -> None:
        async with self._client.pubsub() as pubsub:
            try:
                await pubsub.subscribe(channel)
                await pubsub.get_message(timeout=1.0)
            except NoPermissionError as error:
                denied.append("SUBSCRIBE")
                self._denied("SUBSCRIBE", error)

    async def _setting(self, name: str) -> str | None:
        """Ask for a setting; None where that is not allowed, as with most who host servers."""
        try:
            found: dict[str, str] = await self._client.config_get(name)
        except (NoPermissionError, ResponseError):
            return None
        return found.get(name)

    def _denied(self, command: str, error: Exception) -> None:
        advice = (
            f"ACL SETUSER … ~{self._prefix}:* &{self._prefix}:* +{command.lower()}; README, Redis, lists all rights"
        )
        self._error("rights", f"{command} is not allowed: {error}", advice)

    def _unknown(self, about: str) -> None:
        self._add("note", about, "the server does not tell", "look at it with the rights of its administrator")

    def _ok(self, about: str, found: str) -> None:
        self._add("ok", about, found)

    def _error(self, about: str, found: str, advice: str) -> None:
        self._add("error", about, found, advice)

    def _add(self, level: Any, about: str, found: str, advice: str = "") -> None:
        self._found.append(Finding(level=level, about=about, found=found, advice=advice))
