"""Tidemill as a transport of kombu, Celery's library for brokers.

A task queue is a topic that the workers share: tasks are leased, and the leases renewed until they are acknowledged.
Exchanges are kombu's own, in each process.  A message that no queue of this process is bound to get goes to the topic
of its exchange, which all processes read that have bound a queue to it which is deleted automatically: so remote
control, its replies and events work.

queue declared ─▶ topic           published ─▶ bound queues, or the topic of the exchange
consumed ─▶ receive ─▶ delivered ─▶ ack, or reject
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from queue import Empty
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from kombu.transport import virtual

from tidemill.model.delayed_record import ARRIVAL, DELIVER_AT
from tidemill.sdk.celery_link import LOG, CeleryLink, topic_name
from tidemill.sdk.message import AsyncMessage
from tidemill.sdk.problems import BrokersUnavailable, LeaseExpired, RequestRefused, SendFailed, TidemillError

DEFAULT_PORT: Final = 9080
GROUP: Final = "celery"
RECEIVED_MAX: Final = 100  # messages of a queue that are received at once
ACK_S_MAX: Final = 10.0  # how long the end of a connection waits for acknowledgements
EXCHANGE: Final = ".exchange"  # the end of the name of an exchange's topic
NO_REPLIES: Final = (
    "Tidemill has no queues for replies, which the result backend rpc:// needs: choose another result backend, such as "
    "file://DIRECTORY, redis://HOST or db+sqlite:///FILE"
)
log = logging.getLogger("tidemill.celery")


def http_address(url: SplitResult) -> str:
    """Return the scheme, host and port of a URL, without its user and password."""
    host = url.netloc.rpartition("@")[2]  # with the brackets of an address of IPv6
    return f"{url.scheme}://{host if url.port else f'{host}:{DEFAULT_PORT}'}"


def is_reply(message: Mapping[str, Any]) -> bool:
    """
    Return whether a message answers another one, as a result of the backend rpc:// does: it has the id of that one, and
    nothing says where its own answer is to go.  A task always says so, or has its name in a header.
    """
    properties, headers = message.get("properties") or {}, message.get("headers") or {}
    return bool(properties.get("correlation_id")) and not properties.get("reply_to") and "task" not in headers


class QoS(virtual.QoS):
    """The messages that this process holds."""

    def ack(self, delivery_tag: str) -> None:
        self._end(delivery_tag, "ack")

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._end(delivery_tag, "nack" if requeue else "reject")

    def _end(self, delivery_tag: str, decision: str) -> None:
        self.channel.decide(delivery_tag, decision)
        super().ack(delivery_tag)
        self.channel.connection.wake()

    def restore_unacked(self) -> list[Any]:
        """Release all messages that are not acknowledged, as if they had not been delivered: so do other brokers."""
        self._flush()
        for delivery_tag in list(self._delivered):
            self.channel.decide(delivery_tag, "undo")
        self._delivered.clear()
        return []


class Channel(virtual.Channel):
    QoS = QoS
    supports_fanout = True

    def __init__(self, connection: Any, **more: Any) -> None:
        super().__init__(connection, **more)
        self._held: dict[str, AsyncMessage] = {}  # by delivery tag
        self._positions: dict[str, dict[str, int]] = {}  # of a queue that is deleted automatically: topic and offset
        self._receiving: dict[tuple[str, str | None], Future[Any]] = {}  # by queue, and the topic of an exchange
        self._deciding: set[Future[None]] = set()

    @property
    def link(self) -> CeleryLink:
        found: CeleryLink = self.connection.link
        return found

    # Publishing.

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> Iterable[str]:
        """Return the queues that are bound to get a message; the exchange's topic if this process knows none."""
        if not exchange:
            return [routing_key]
        try:
            queues = self.typeof(exchange).lookup(self.get_table(exchange), exchange, routing_key, default)
        except KeyError:
            queues = []
        bound = [it for it in queues if it not in self._positions]
        return bound or [exchange + EXCHANGE]

    def _put(self, queue: str, message: Any, **_: Any) -> None:
        if queue.endswith(EXCHANGE):
            self._put_fanout(queue.removesuffix(EXCHANGE), message, "")
        else:
            if is_reply(message):
                raise NotImplementedError(f"the message to queue {queue} is a reply. {NO_REPLIES}")
            self._declare(queue)
            self.link.send_task(queue, message)

    def _put_fanout(self, exchange: str, message: Any, routing_key: str, **_: Any) -> None:
        topic = topic_name(exchange + EXCHANGE)
        self.link.declare_exchange(topic)
        self.link.send(topic, message)

    # Declaring.

    def _new_queue(self, queue: str, auto_delete: bool = False, **_: Any) -> None:
        if auto_delete:
            self._positions.setdefault(queue, {})
        else:
            self._declare(queue)

    def _declare(self, queue: str) -> None:
        """Create the topic of a task queue.  Raise NotImplementedError if the tasks are to be answered to a queue."""
        for name, topics in self._positions.items():
            if not topics:
                raise NotImplementedError(f"queue {name} is bound to no exchange. {NO_REPLIES}")
        self.link.declare(queue)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: Any, queue: str) -> None:
        positions = self._positions.get(queue)
        if positions is not None:
            topic = topic_name(exchange + EXCHANGE)
            self.link.declare_exchange(topic)
            positions.setdefault(topic, self.link.end_of(topic))

    def _size(self, queue: str) -> int:
        return 0 if queue in self._positions else self.link.available(queue)

    def _purge(self, queue: str) -> int:
        return 0 if queue in self._positions else self.link.purge(queue)

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        """Forget a queue.  A topic stays, because other processes may use it."""
        self._positions.pop(queue, None)

    # Consuming.

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """Return one message at once.  Raise Empty."""
        for topic, offset in self._positions.get(queue, {}).items():
            raise NotImplementedError(f"queue {queue} of topic {topic} at {offset} is read by consumers only")
        for message in self.link.receive(queue, 1, wait_s=0).result():
            if (payload := self._payload(message)) is not None:
                return payload
        raise Empty

    def begin(self) -> Iterable["Future[Any]"]:
        """Begin to receive from the queues that are consumed, as far as the prefetch count allows it."""
        if self._active_queues and self.qos.can_consume():
            for queue in dict.fromkeys(self._active_queues):
                self._begin(queue)
        return self._receiving.values()

    def deliver(self) -> bool:
        """Deliver what has been received, and return whether there was anything."""
        ended = [(key, it) for key, it in self._receiving.items() if it.done()]
        for key, _ in ended:
            del self._receiving[key]
        payloads = [(queue, it) for (queue, topic), one in ended for it in self._payloads(queue, topic, one.result())]
        for queue, payload in payloads:
            self.connection._deliver(payload, queue)
        return bool(payloads)

    def _begin(self, queue: str) -> None:
        """Begin to receive from a queue, unless it has begun already."""
        if queue in self._positions:
            if not self._positions[queue]:
                raise NotImplementedError(f"queue {queue} is bound to no exchange. {NO_REPLIES}")
            for topic, offset in self._positions[queue].items():
                if (queue, topic) not in self._receiving:
                    self._receiving[queue, topic] = self.link.read(topic, offset)
        elif (queue, None) not in self._receiving:
            wanted = self.qos.can_consume_max_estimate()
            count = RECEIVED_MAX if wanted is None else min(max(wanted // len(self._active_queues), 1), RECEIVED_MAX)
            self._receiving[queue, None] = self.link.receive(queue, count)

    def _payloads(self, queue: str, topic: str | None, received: Any) -> list[Any]:
        if topic is None:
            return [it for it in map(self._payload, received) if it is not None]
        values, offset = received
        positions = self._positions.get(queue, {})
        if topic in positions:
            positions[topic] = offset
        exchange = topic.removesuffix(EXCHANGE)
        return [it for it in (self._published(queue, exchange, value) for value in values) if it is not None]

    def _published(self, queue: str, exchange: str, value: Any) -> Any:
        """Return a message that was published to an exchange, if the queue gets it; None otherwise."""
        try:
            payload = json.loads(value)
            info = payload["properties"]["delivery_info"]
            name, routing_key = info["exchange"], info["routing_key"]
        except (ValueError, KeyError, TypeError):
            log.error("a message in topic %s is not one of Celery; it is left out", exchange + EXCHANGE)
            return None
        if topic_name(name + EXCHANGE) != exchange + EXCHANGE or name not in self.state.exchanges:
            return None
        bound = self.typeof(name).lookup(self.get_table(name), name, routing_key, None)
        return payload if queue in bound else None

    def _payload(self, message: AsyncMessage) -> Any:
        """Return a message as kombu has sent it; None for one that it has not sent, which is rejected."""
        try:
            payload = message.json()
            properties = payload["properties"]
            properties["delivery_info"]["redelivered"] = message.attempt > 1
            if message.header(ARRIVAL) is not None and message.header(DELIVER_AT) is not None:
                payload["headers"]["eta"] = None  # its topic has waited; the worker would for up to a second more
        except (ValueError, KeyError, TypeError):
            log.error(
                "the message at offset %d of partition %d of topic %s is not one of Celery; it is rejected",
                message.offset,
                message.partition,
                message.topic,
            )
            self._decide(message, "reject")
            return None
        tag = properties["delivery_tag"] = self._next_delivery_tag()
        self._held[tag] = message
        return payload

    def decide(self, delivery_tag: str, decision: str) -> None:
        """Acknowledge, release or reject a message, from any thread."""
        message = self._held.pop(delivery_tag, None)
        if message is not None:  # else it comes from the topic of an exchange, and needs no acknowledgement
            self._decide(message, decision)

    def _decide(self, message: AsyncMessage, decision: str) -> None:
        deciding = self.link.decide(message, decision)
        self._deciding.add(deciding)
        deciding.add_done_callback(self._decided)

    def _decided(self, deciding: "Future[None]") -> None:
        self._deciding.discard(deciding)
        problem = None if deciding.cancelled() else deciding.exception()
        if isinstance(problem, LeaseExpired):
            log.warning("the lease of a task had ended before it was acknowledged; it is delivered again")
        elif problem is not None:
            log.error("a task was not acknowledged; it is delivered again when its lease ends: %s", problem)

    def close(self) -> None:
        if not self.closed:
            for receiving in self._receiving.values():
                receiving.cancel()
            self._receiving.clear()
            if self.connection is not None and self._held:
                self.qos.restore_unacked_once()
            wait(self._deciding, ACK_S_MAX)
        super().close()


class Transport(virtual.Transport):
    Channel = Channel
    can_parse_url = True
    driver_type = "tidemill"
    driver_name = "tidemill"
    default_port = DEFAULT_PORT
    connection_errors = (*virtual.Transport.connection_errors, BrokersUnavailable, SendFailed)
    channel_errors = (*virtual.Transport.channel_errors, RequestRefused, TidemillError)
    implements = virtual.Transport.implements.extend(exchange_type=frozenset(["direct", "topic", "fanout"]))

    def __init__(self, client: Any, **more: Any) -> None:
        super().__init__(client, **more)
        self._link: CeleryLink | None = None
        self._woken: Future[None] = Future()

    @property
    def link(self) -> CeleryLink:
        """The connection to the cluster, which is opened when it is first used."""
        if self._link is None:
            options = self.client.transport_options
            url = urlsplit(self.client.hostname)
            self._link = CeleryLink(
                http_address(url),
                options.get("token") or (url.password and unquote(url.password)),
                options.get("group", GROUP),
                options.get("visibility_timeout"),
                options.get("partitions"),
                options.get("kind", LOG),
                timeout_s=self.client.connect_timeout,
            )
        return self._link

    def establish_connection(self) -> Any:
        self.link  # noqa: B018  (an address without a broker is an error here)
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        link, self._link = self._link, None
        if link is not None:
            link.close()

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver the next messages of any channel.  Raise TimeoutError if none come within `timeout`, in seconds."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        while True:
            woken = self._woken = Future[None]()
            waiting = [it for channel in self.channels for it in channel.begin()]
            wait([woken, *waiting], None if ends_at is None else ends_at - time.monotonic(), FIRST_COMPLETED)
            if sum(channel.deliver() for channel in [*self.channels]):
                return
            if ends_at is not None and time.monotonic() >= ends_at:
                raise TimeoutError

    def wake(self) -> None:
        """Let `drain_events` look at the channels again: one of them may receive more messages."""
        if not self._woken.done():
            self._woken.set_result(None)

    def driver_version(self) -> str:
        from importlib.metadata import version

        return version("tidemill")
