"""What one connection reads: its subscriptions, from the command to their end, and how they are brought up."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol

from gateway.admission import Admission, Credentials, lasting
from gateway.codec import encode_json
from gateway.errors import (
    BrokerUnavailableError,
    CommandError,
    DisconnectCode,
    DisconnectError,
    ErrorCode,
    UnsubscribeCode,
)
from gateway.frames import PIECE_BYTES, Place, RefreshRequest, SubscribeRequest, encode_push
from gateway.grants import Identity
from gateway.hub import Hub
from gateway.lens import Lens, read_lens
from gateway.presence import Attendee
from gateway.session import Session, topic_of
from gateway.subscriber import Reader, Subscriber
from gateway.types import START, TOPIC_PATTERN, Position, Topic
from gateway.view import view_of

__all__ = ["Host", "Reading"]

logger = logging.getLogger(__name__)

RETRY = 0.25
"""Seconds until a reader that needs the store is brought up again while the broker is away."""


class Host(Reader, Protocol):
    """The connection, as what it reads sees it."""

    pending: list[bytes] | None

    @property
    def is_paused(self) -> bool:
        """Whether its socket takes nothing right now."""

    @property
    def is_closed(self) -> bool:
        """Whether it has let go."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something that ends with the process at the latest."""

    async def may_write(self) -> None:
        """Wait until its socket takes more, or is gone."""

    def announce(self, topic: Topic, frames: bytes) -> None:
        """Tell who comes and goes on a topic."""


class Reading:
    """The subscriptions of one connection."""

    __slots__ = (
        "_admission",
        "_behind",
        "_catching",
        "_credentials",
        "_given",
        "_host",
        "_hub",
        "_session",
        "_subscribers",
    )

    def __init__(
        self, host: Host, hub: Hub, session: Session, *, admission: Admission, credentials: Credentials
    ) -> None:
        """Begin with none.

        Args:
            host: The connection.
            hub: Where the topics are.
            session: Which topics are taken, and how many there may be.
            admission: Who may do what.
            credentials: What this connection may do.

        """
        self._host = host
        self._hub = hub
        self._session = session
        self._admission = admission
        self._credentials = credentials
        self._subscribers: dict[Topic, Subscriber] = {}
        self._given: dict[Topic, str] = {}  # subscribed by the gateway itself, as the token says; the epochs
        self._behind: dict[Subscriber, None] = {}
        self._catching: asyncio.Task[None] | None = None

    def __contains__(self, topic: object) -> bool:
        return topic in self._subscribers

    @property
    def is_behind(self) -> bool:
        """Whether some of it lacks events."""
        return bool(self._behind)

    def close(self) -> None:
        """Let go of everything."""
        for subscriber in self._subscribers.values():
            self._hub.leave(subscriber)
            self._absent(subscriber.topic.name)
        self._subscribers.clear()
        self._behind.clear()
        if self._catching is not None:
            self._catching.cancel()

    def pause(self) -> None:
        """Keep only cursors."""
        for subscriber in self._subscribers.values():
            if subscriber.live:
                subscriber.topic.fall_behind(subscriber)

    def fell_behind(self, subscriber: Subscriber) -> None:
        """Bring a subscriber up as soon as the socket takes more."""
        self._behind[subscriber] = None
        self.bring_up()

    def caught_up(self, subscriber: Subscriber) -> bool:
        """Note that a subscriber is at the head again; False where the piece that brought it filled the socket."""
        self._behind.pop(subscriber, None)
        if self._host.is_paused:
            subscriber.topic.fall_behind(subscriber)
            return False
        return True

    def replaced(self, subscriber: Subscriber) -> None:
        """Note that a history was replaced under a reader that takes no snapshot."""
        epoch = self._given.get(subscriber.topic.name)
        self.dropped(subscriber)
        if epoch is not None:
            # Of a topic that nobody had written, this is the first history: nothing of it is missed.
            self._host.spawn(self._give_again(subscriber.topic.name, None if epoch else START))

    def dropped(self, subscriber: Subscriber) -> None:
        """Note that the gateway ended a subscription."""
        topic = subscriber.topic.name
        self._forget(topic)
        self._absent(topic)
        self._release(topic)

    def end(self, topic: Topic, code: UnsubscribeCode, reason: str) -> None:
        """Unsubscribe from a topic, and say why."""
        epoch, subscriber = self._given.get(topic), self._subscribers.get(topic)
        self.leave(topic)
        self._host.push(encode_push("unsubscribe", {"code": int(code), "reason": reason}, channel=topic))
        if epoch is not None and subscriber is not None and code >= UnsubscribeCode.INSUFFICIENT_STATE:
            # Clients do not ask again for what they were given.
            self._host.spawn(self._give_again(topic, Position(epoch=epoch, offset=subscriber.cursor)))

    def leave(self, topic: Topic) -> None:
        """Unsubscribe from a topic."""
        subscriber = self._forget(topic)
        if subscriber is not None:
            self._hub.leave(subscriber)
            self._absent(topic)
        self._release(topic)

    # Being brought up

    def bring_up(self) -> None:
        """Bring up what is behind, while the socket takes it."""
        host = self._host
        if self._behind and not host.is_paused and not host.is_closed and self._catching is None:
            self._catching = host.spawn(self._catch_up())
            self._catching.add_done_callback(self._caught)

    async def _catch_up(self) -> None:
        while self._behind and not self._host.is_paused:
            for subscriber in list(self._behind):
                if self._host.is_paused:
                    return
                if subscriber not in self._behind:
                    continue
                try:
                    await self._hub.advance(subscriber)
                except BrokerUnavailableError:
                    await asyncio.sleep(RETRY)
            await asyncio.sleep(0)

    def _caught(self, task: asyncio.Task[None]) -> None:
        self._catching = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.error("bringing a reader up failed", exc_info=error)
            self._host.close(DisconnectCode.SERVER_ERROR, "internal server error")
        else:
            self.bring_up()  # the socket may have taken more while the task ended

    # Commands

    async def subscribe(self, request: SubscribeRequest, answer: Callable[[dict[str, Any]], None]) -> None:
        """Subscribe to a topic.

        Args:
            request: What is asked.
            answer: Writes the reply, in the step in which the subscription becomes live.

        Raises:
            CommandError: The topic is refused.
            BrokerUnavailableError: The broker is away.

        """
        lens = read_lens(request.data)
        if request.channel in self._given:
            self.leave(Topic(request.channel))  # who asks wants it in another way than it was given
        topic = self._session.subscribe(request.channel)
        entered = admitted = False
        try:
            await self._admission.authority.ready(request.token)
            identity = self._credentials.subscribe(topic, request.token)
            admitted = True
            view = view_of(lens, identity.redaction(topic))
            if request.join_leave:
                identity.require("presence", topic)
                await self._hub.presence.watch(topic, self._host)
            asked = Position(epoch=request.epoch or "", offset=request.offset or 0) if request.recover else None
            while True:
                await self._host.may_write()
                subscriber, reply = await self._hub.join(
                    self._host, topic, asked=asked, mirror=request.mirror, view=view
                )
                if not self._host.is_paused:
                    break
            self._recheck(topic, identity)
            if request.refuse_unrecovered and reply.get("recovered") is False:
                raise CommandError(ErrorCode.UNRECOVERABLE_POSITION, "the position cannot be continued")
            reply["data"] = {"grants": identity.verbs(topic), **reply.get("data", {})}
            if request.token:
                reply.update(lasting(identity))
            if request.join_leave:
                reply["join_leave"] = True
            # One step from here on: the reply first, then live.
            self._subscribers[topic] = subscriber
            self._count()
            entered = True
            answer(reply)
            if self._host.is_closed:
                self._absent(topic)
            else:
                self._hub.enter(subscriber)
                # A board of a thousand topics would have to be listed on each of them.
                if not subscriber.summarised:
                    self._hub.presence.enter(topic, self._attendee(identity))
        finally:
            if not entered:
                self._hub.presence.unwatch(topic, self._host)
                if admitted:
                    self._release(topic)
                else:
                    self._session.release(topic)

    async def give(self, channels: Iterable[str], places: Mapping[str, Place]) -> dict[str, dict[str, Any]]:
        """Prepare the subscriptions that a connection gets with its connect reply; `begin` in the step that returns.

        Args:
            channels: What the token names; what is no topic, or may not be read, is left out.
            places: Where the client stands in them.

        Returns:
            What the connect reply says of each.

        Raises:
            BrokerUnavailableError: The broker is away.
            DisconnectError: 3505, they are more than one connection, or one user, may have.

        """
        joined: dict[Topic, tuple[Subscriber, dict[str, Any]]] = {}
        may = self._credentials.identity.may
        topics = [Topic(name) for name in channels if TOPIC_PATTERN.match(name) and may("read", Topic(name))]
        try:
            for topic in topics:
                self._credentials.subscribe(self._session.subscribe(topic), None)
        except CommandError as error:
            raise DisconnectError(DisconnectCode.CHANNEL_LIMIT, error.message) from error
        while True:
            await self._host.may_write()
            for name in topics:
                found = joined.get(name)
                if found is None or not self._hub.holds(found[0], epoch=found[1]["epoch"]):
                    place, asked = places.get(name), None
                    if place is not None and place.recover:
                        asked = Position(epoch=place.epoch or "", offset=place.offset or 0)
                    joined[name] = await self._join_given(name, asked)
            held = all(self._hub.holds(subscriber, epoch=reply["epoch"]) for subscriber, reply in joined.values())
            if held and not self._host.is_paused:
                break
        room = PIECE_BYTES
        for name, (subscriber, reply) in joined.items():
            self._subscribers[name] = subscriber
            self._given[name] = reply["epoch"]
            size = sum(len(bytes(each)) for each in reply.get("publications", ()))
            if size > room:
                # What finds no room in the one reply follows as pushes.
                subscriber.cursor = reply["offset"] = places[name].offset or 0
                del reply["publications"]
            else:
                room -= size
        self._count()
        return {name: reply for name, (_, reply) in joined.items()}

    async def _give_again(self, topic: Topic, asked: Position | None) -> None:
        """Subscribe a client once more to what it was given, with a push: from a position on, or from now on."""
        while True:
            await self._host.may_write()
            try:
                subscriber, reply = await self._join_given(topic, asked)
            except BrokerUnavailableError:
                await asyncio.sleep(RETRY)
                continue
            if self._host.is_closed or topic in self._session.topics:
                return  # it has asked for the topic itself
            if not self._host.is_paused:
                break
        try:
            self._session.subscribe(topic)
            self._credentials.subscribe(topic, None)
        except CommandError as error:
            self._session.release(topic)
            logger.debug("not subscribed again to %s: %s", topic, error)
            return
        if asked is not None and reply.pop("publications", None):
            subscriber.cursor = reply["offset"] = (
                asked.offset
            )  # clients take none from a push: they follow by themselves
        told = {name: value for name, value in reply.items() if name not in {"was_recovering", "recovered"}}
        self._subscribers[topic] = subscriber
        self._given[topic] = reply["epoch"]
        self._count()
        self._host.push(encode_push("subscribe", told, channel=topic))
        self._hub.enter(subscriber)
        self._hub.presence.enter(topic, self._attendee(self._credentials.identity))

    async def _join_given(self, topic: Topic, asked: Position | None) -> tuple[Subscriber, dict[str, Any]]:
        identity = self._credentials.identity
        view = view_of(Lens(), identity.redaction(topic))
        subscriber, reply = await self._hub.join(self._host, topic, asked=asked, mirror=False, view=view)
        return subscriber, {**reply, "data": {"grants": identity.verbs(topic)}}

    def begin(self) -> None:
        """Serve what `give` prepared, once its reply is written."""
        for topic in list(self._given):
            self._hub.enter(self._subscribers[topic])
            self._hub.presence.enter(topic, self._attendee(self._credentials.identity))

    def take_back(self) -> None:
        """Let go of what `give` took, where the connect command comes to nothing."""
        self._session.topics.clear()
        self._subscribers.clear()
        self._given.clear()

    def _recheck(self, topic: Topic, identity: Identity) -> None:
        """Refuse a subscription where its token ran out, or another one came, while the topic was read for it."""
        if topic not in self._session.topics:
            raise CommandError(ErrorCode.TOKEN_EXPIRED, "the token has expired")
        now = self._credentials.of(topic)
        now.require("read", topic)
        if now.redaction(topic) != identity.redaction(topic):
            raise CommandError(ErrorCode.INTERNAL, "what may be seen has changed; try again", temporary=True)

    def _attendee(self, identity: Identity) -> Attendee:
        whole = self._credentials.identity
        found = {"conn_info": whole.info, "chan_info": identity.info if identity is not whole else None}
        told = {name: info for name, info in found.items() if info is not None}
        return Attendee(client=self._host.client, user=identity.user, told=encode_json(told).decode() if told else "")

    async def refresh(self, request: RefreshRequest) -> Identity:
        """Go on with a fresh token, with what it allows; raises as `Credentials.refresh`."""
        await self._admission.authority.ready(request.token)
        before = {topic: self._credentials.of(topic).redaction(topic) for topic in self._subscribers}
        self._credentials.refresh(request.token)
        for topic, redaction in before.items():
            now = self._credentials.of(topic)
            if not now.may("read", topic):
                self.end(topic, UnsubscribeCode.SERVER, "permission denied")
            elif now.redaction(topic) != redaction:
                self.end(topic, UnsubscribeCode.INSUFFICIENT_STATE, "what may be seen has changed")
        return self._credentials.identity

    async def refresh_topic(self, request: RefreshRequest) -> dict[str, Any]:
        """Go on reading a topic with a fresh token of its own; raises as `Credentials.refresh_topic`."""
        await self._admission.authority.ready(request.token)
        topic = topic_of(request.channel or "")
        before = self._credentials.of(topic).redaction(topic)
        identity = self._credentials.refresh_topic(topic, request.token)
        if identity.redaction(topic) != before:
            self.end(topic, UnsubscribeCode.INSUFFICIENT_STATE, "what may be seen has changed")
        return lasting(identity)

    def _forget(self, topic: Topic) -> Subscriber | None:
        self._given.pop(topic, None)
        subscriber = self._subscribers.pop(topic, None)
        if subscriber is not None:
            self._behind.pop(subscriber, None)
            self._count()
        return subscriber

    def _count(self) -> None:
        if len(self._subscribers) < 2:
            self._host.pending = None
        elif self._host.pending is None:
            self._host.pending = []

    def _absent(self, topic: Topic) -> None:
        self._hub.presence.unwatch(topic, self._host)
        self._hub.presence.leave(topic, self._host.client)

    def _release(self, topic: Topic) -> None:
        if topic in self._session.topics:
            self._session.release(topic)
            self._credentials.unsubscribe(topic)
