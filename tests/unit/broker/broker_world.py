"""A complete broker for unit tests: the production wiring on a simulated disk.  The test executes jobs and timers.

    world = BrokerWorld()                                   # an empty directory, one broker, ready
    world.create("flights", partitions=2)
    response = world.ask(fetch.Request(...))                # encoded, through a Kafka connection

Nothing happens between calls: `ask` and `stabilize` execute all pending work, `pass_time` moves the clock and fires
timers.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidemill.batches.batch import spans
from tidemill.batches.builder import build_batch
from tidemill.batches.records import Record, read_records
from tidemill.broker.broker import Broker
from tidemill.broker.connection.dispatch import UNLISTED
from tidemill.broker.connection.kafka_connection import KafkaConnection
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.machine import Machine
from tidemill.broker.startup import wiring
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.metadata_records import Endpoint
from tidemill.metadata.topics import CreateTopics, NewTopic
from tidemill.model.config_resolution import NOTHING
from tidemill.model.entropy import Entropy
from tidemill.peer.link import LinkOwner, Links
from tidemill.shard.partition import Partition
from tidemill.simulation.machine.disk import SimulatedDisk
from tidemill.simulation.machine.jobs import SimulatedJobs
from tidemill.storage.store import StoreOptions
from tidemill.telemetry.event_log import EventLog
from tidemill.wire.api import ALL
from tidemill.wire.messages import fetch, produce
from tidemill.wire.schema import Api, Message

BEGIN_MS = 1_700_000_000_000
LISTENER = "PLAINTEXT"
OPTIONS = StoreOptions(journal_first_bytes=1 << 20, journal_file_bytes=1 << 20, journal_bytes_max=8 << 20)
STEPS_MAX = 100_000


class HandClock:
    def __init__(self) -> None:
        self.now_ms = BEGIN_MS
        self.wrong_ms = 0  # how far ahead of real time the wall clock is

    def wall_ms(self) -> int:
        return self.now_ms + self.wrong_ms

    def monotonic_ms(self) -> int:
        return self.now_ms - BEGIN_MS

    def monotonic_us(self) -> int:
        return self.monotonic_ms() * 1_000


class CountingEntropy:
    """A deterministic stand-in for a random source: it returns a counter, so that every draw is different."""

    def __init__(self) -> None:
        self._drawn = 0

    def random_bytes(self, count: int) -> bytes:
        self._drawn += 1
        return self._drawn.to_bytes(count, "big")


class HandTurns:
    """A stand-in for an event loop's `call_soon`: the test runs the scheduled callbacks one by one."""

    def __init__(self) -> None:
        self._callbacks: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def turn(self) -> bool:
        if not self._callbacks:
            return False
        self._callbacks.popleft()()
        return True


class Timer:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class HandWriter:
    """A socket that keeps everything that is sent to it."""

    def __init__(self) -> None:
        self.peer = ("127.0.0.1", 50_000)
        self.sent = bytearray()
        self.unsent_bytes = 0
        self.is_open = True
        self.is_reading = True

    def send(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        for part in parts:
            self.sent += part

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.is_open = False

    def abort(self) -> None:
        self.is_open = False


class Client:
    """One connection to the broker of a world; requests and responses are encoded as on a real connection."""

    def __init__(self, world: "BrokerWorld", listener: str = LISTENER) -> None:
        self._world = world
        self.writer = HandWriter()
        self.connection = KafkaConnection(world.broker, listener, self.writer, 100 << 20)
        self._correlation_id = 0

    def send(self, request: Message, version: int | None = None) -> tuple[Api, int]:
        """Deliver a request to the broker without executing pending work.  Return its API and version, for `answer`."""
        api = api_of(request)
        version = api.versions[-1] if version is None else version
        self._correlation_id += 1
        frame = b"".join(bytes(part) for part in api.encode_request(version, request, self._correlation_id, "test"))
        at = 0
        while at < len(frame):
            buffer = self.connection.get_buffer(len(frame) - at)
            count = min(len(buffer), len(frame) - at)
            buffer[:count] = frame[at : at + count]
            self.connection.received(count)
            at += count
        return api, version

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request, execute all pending work, and return the response.  Timers do not fire."""
        answered = self.ask_only(request, version)
        self._world.stabilize()
        return answered

    def ask_only(self, request: Message, version: int | None = None) -> Any:
        """Send a request and return the response as soon as it arrives, leaving later work pending."""
        api, version = self.send(request, version)
        answered = self.answer(api, version)
        while answered is None and self._world.step():
            answered = self.answer(api, version)
        assert answered is not None, f"{api.name} was not answered"
        return answered

    def answer(self, api: Api, version: int) -> Any:
        """Remove and return the oldest response that has arrived, or None if there is none."""
        sent = self.writer.sent
        if len(sent) < 4:
            return None
        size = int.from_bytes(sent[:4])
        frame = memoryview(bytes(sent[4 : 4 + size]))
        del sent[: 4 + size]
        return api.decode_response(version, frame, api.response_body_at(version, frame))


class BrokerWorld:
    def __init__(
        self,
        static: Mapping[str, str] = NOTHING,
        *,
        disk: SimulatedDisk | None = None,
        clock: HandClock | None = None,
        options: StoreOptions = OPTIONS,
        endpoints: tuple[Endpoint, ...] = (Endpoint(LISTENER, "127.0.0.1", 9092, "PLAINTEXT"),),
        reads: bool = True,
        extra_coordinators: Sequence[AnyRegistration] = (),
        newest_level: int = NEWEST,
    ) -> None:
        """
        Start the broker, of a version that supports feature levels up to `newest_level`.  The reader threads do nothing
        while `reads` is False, the journal thread does nothing while the attribute `writes` is False, and the
        compression threads do nothing while `recompresses` is False.
        """
        self.reads = reads
        self.writes = True
        self.recompresses = True
        self.static = static
        self.extra_coordinators = extra_coordinators
        self.newest_level = newest_level
        self.options = options
        self.endpoints = endpoints
        self.disk = disk or SimulatedDisk()
        self.cpu_us = 0  # the CPU time that the process has used
        self.clock = clock or HandClock()
        self.entropy: Entropy = CountingEntropy()
        self.turns = HandTurns()
        self.journal_jobs, self.write_back_jobs = SimulatedJobs(), SimulatedJobs()
        self.background_jobs, self.read_jobs = SimulatedJobs(), SimulatedJobs()
        self.opening_jobs, self.compression_jobs = SimulatedJobs(), SimulatedJobs()
        self.timers: list[Timer] = []
        self.events: list[str] = []
        self.broker: Broker = asyncio.run(self._up())
        self.client = Client(self)

    def _machine(self, links: Callable[[LinkOwner], Links] | None = None) -> Machine:
        return Machine(
            turns=self.turns,
            clock=self.clock,
            entropy=self.entropy,
            journal_jobs=self.journal_jobs,
            write_back_jobs=self.write_back_jobs,
            background_jobs=self.background_jobs,
            read_jobs=self.read_jobs,
            opening_jobs=self.opening_jobs,
            compression_jobs=self.compression_jobs,
            call_later=self._call_later,
            failed=_failed,
            events=EventLog(self.events.append, self.clock.wall_ms, as_json=False),
            cpu_us=lambda: self.cpu_us,
            links=links,
        )

    async def _up(self) -> Broker:
        machine = self._machine()

        async def up() -> Broker:
            identity, store, _ = await wiring.open_directory(self.disk, None, (), machine, self.options)
            broker = wiring.make(identity, store, self.static, machine, self.extra_coordinators, self.newest_level)
            await wiring.bring_up(broker)
            await wiring.register_broker(broker, self.endpoints, None)
            return broker

        task = asyncio.get_running_loop().create_task(up())
        while not task.done():
            self.stabilize()
            await asyncio.sleep(0)
        return task.result()

    def _call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.clock.now_ms + round(delay_s * 1000), callback)
        self.timers.append(timer)
        return timer

    def stabilize(self) -> None:
        """Run the event loop and the jobs until nothing is left to do before the clock moves."""
        for _ in range(STEPS_MAX):
            if not self.step():
                return
        raise AssertionError(f"the broker does not come to rest in {STEPS_MAX} steps")

    def step(self) -> bool:
        """Execute one turn of the event loop, or one job and its callback.  Return False if nothing is left to do."""
        jobs = [self.journal_jobs] if self.writes else []
        jobs += [self.write_back_jobs, self.background_jobs]
        jobs += [self.read_jobs, self.opening_jobs] if self.reads else []
        jobs += [self.compression_jobs] if self.recompresses else []
        return self.turns.turn() or any(queue.step() for queue in jobs)

    def pass_time(self, duration_ms: int) -> None:
        """Move the clock forward.  Timers fire in order, each at its due time, and the broker ticks once at the end."""
        end_ms = self.clock.now_ms + duration_ms
        while True:
            self.timers = [timer for timer in self.timers if not timer.is_cancelled]
            due = min((timer for timer in self.timers if timer.due_ms <= end_ms), key=_due, default=None)
            if due is None:
                break
            self.timers.remove(due)
            self.clock.now_ms = max(self.clock.now_ms, due.due_ms)
            due.callback()
            self.stabilize()
        self.clock.now_ms = end_ms
        self.broker.tick()
        self.stabilize()

    def restarted(self, static: Mapping[str, str] | None = None, *, reads: bool = True) -> "BrokerWorld":
        """Return the world after a kill and a restart: a new process with the same disk and the same clock."""
        return BrokerWorld(
            self.static if static is None else static,
            disk=self.disk.after_kill(),
            clock=self.clock,
            options=self.options,
            endpoints=self.endpoints,
            reads=reads,
        )

    # Setup steps that most tests share.

    def ask(self, request: Message, version: int | None = None) -> Any:
        """Send a request in the given version, by default the newest, and return the response."""
        return self.client.ask(request, version)

    def create(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Create a topic and wait until it has leaders.  Settings are keyword arguments, such as `retention_ms="1"`."""
        named = tuple((key.replace("_", "."), value) for key, value in settings.items())
        created: list[Any] = []
        topic = NewTopic(name=name, partition_count=partitions, replication_factor=1, settings=named)
        self.broker.controller.submit(CreateTopics(topics=(topic,))).then(created.extend)
        self.stabilize()
        assert created and created[0].problem is None, created

    def partition(self, topic: str, number: int = 0) -> Partition:
        found = self.broker.shard_table.partition(topic, number)
        assert found is not None, f"{topic}-{number} is not open"
        return found

    def produce(
        self,
        topic: str,
        *values: bytes,
        number: int = 0,
        timestamp_ms: int | Sequence[int] | None = None,
        acks: int = -1,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        **header: int,
    ) -> produce.Response.Topic.Partition:
        """
        Produce one batch and return the response.  Each record has these `headers`.  `header` sets fields of the
        batch's header, such as `producer_id=1`.
        """
        stamp = self.clock.now_ms if timestamp_ms is None else timestamp_ms
        stamps = [stamp] * len(values) if isinstance(stamp, int) else stamp
        rows = zip(keys or [None] * len(values), values, stamps, strict=True)
        batch = build_batch([(key, value, headers, at) for key, value, at in rows], **header)  # type: ignore[arg-type]
        data = produce.Request.Topic.Partition(index=number, records=memoryview(batch))
        request = produce.Request(
            transactional_id=None,
            acks=acks,
            timeout_ms=1_000,
            topic_data=[produce.Request.Topic(name=topic, partition_data=[data])],
        )
        answered: produce.Response.Topic.Partition = self.ask(request, version=12).responses[0].partition_responses[0]
        return answered

    def read(self, topic: str, number: int = 0) -> list[Record]:
        """Fetch every record from the log start to the high watermark."""
        partition = self.partition(topic, number)
        offset = partition.log_start
        records: list[Record] = []
        while offset < partition.high_watermark:
            batches = self._fetched(topic, number, offset)
            for span in spans(batches):
                batch = batches[span.position : span.position + span.size]
                records += [record for record in read_records(batch) if record.offset >= offset]
                offset = span.header.end_offset
        return records

    def _fetched(self, topic: str, number: int, offset: int) -> memoryview:
        wanted = fetch.Request.Topic.Partition(partition=number, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = fetch.Request(
            max_wait_ms=0, min_bytes=0, topics=[fetch.Request.Topic(topic=topic, partitions=[wanted])]
        )
        (answer,) = self.ask(request, version=12).responses[0].partitions
        assert not answer.error_code and answer.records, f"fetch from {offset}: error {answer.error_code}"
        return memoryview(answer.records)


def api_of(request: Message) -> Api:
    """Return the API of this request."""
    api = sys.modules[type(request).__module__].API
    assert isinstance(api, Api) and (ALL | UNLISTED)[api.key] is api, f"{request!r} is no request"
    return api


def _due(timer: Timer) -> int:
    return timer.due_ms


def _failed(error: BaseException) -> None:
    raise AssertionError("the machine failed") from error
