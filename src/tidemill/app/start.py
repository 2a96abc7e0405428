"""One broker on the real machine: the composition root.  Start, tell when it is ready, stop in order.

Nothing stands above this floor: what goes wrong with the machine (a sync that failed) ends the process here, at once.
"""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidemill.app.connection_limits import ConnectionLimits
from tidemill.app.http_listener import HttpListener
from tidemill.app.listeners import Address, Listener, address_of
from tidemill.app.loop_watchdog import LoopWatchdog
from tidemill.app.peer_links import PeerLinks
from tidemill.app.quiet_heap import QuietHeap
from tidemill.app.settings import Settings
from tidemill.app.start_problem import StartProblem
from tidemill.batches.native import is_compiled
from tidemill.broker.broker import Broker
from tidemill.broker.connection.kafka_connection import KafkaConnection
from tidemill.broker.machine import Machine
from tidemill.broker.startup import wiring
from tidemill.metadata.metadata_records import HTTP_ENDPOINT, PEER_ENDPOINT, Endpoint, MetadataFormatError
from tidemill.model.config_resolution import broker_int, broker_value
from tidemill.peer.link import LinkOwner
from tidemill.runtime import event_loop
from tidemill.runtime.open_files_limit import raise_open_files_limit
from tidemill.runtime.os_clock import OsClock
from tidemill.runtime.os_disk import OsDisk
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.tcp_server import TcpServer
from tidemill.runtime.thread_jobs import ThreadJobs
from tidemill.storage.checkpoint.recovery import JournalDamaged
from tidemill.storage.data_directory import DirectoryProblem
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.store import StoreOptions
from tidemill.telemetry.event_log import EventLog

if TYPE_CHECKING:
    from tidemill.http.application import Application

T = TypeVar("T")

TICK_S: Final = 0.25
READ_THREADS: Final = 2  # reads that must wait for the disk; they release the GIL
STOP_S: Final = 1.5  # a clean stop takes less; then the journal answers for the rest at the next start
FAILED_EXIT: Final = 1  # as every command that failed: 3 would say that no broker was found


class Ready(NamedTuple):
    """Where the broker is reached, as text."""

    kafka: str
    http: str
    data: str


def run(settings: Settings, *, ready: Callable[[Ready], None], as_json: bool) -> None:
    """Run until SIGINT or SIGTERM."""
    raise_open_files_limit()
    stopping = asyncio.Event()

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        await _Process(settings, loop, as_json=as_json).run(ready, stopping)

    event_loop.run(main, stop=stopping.set)


class _Process:
    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop, *, as_json: bool) -> None:
        self.settings = settings
        self.loop = loop
        self.clock = OsClock()
        named = {} if settings.broker_id is None else {"broker": int(settings.broker_id)}  # several may share a stderr
        self.events = EventLog(sys.stderr.write, self.clock.wall_ms, as_json=as_json, common_fields=named)
        self.disk = _data_directory(settings.data_directory)
        self.servers: list[TcpServer] = []
        self.jobs: list[ThreadJobs] = []
        self.http = HttpListener(loop, self.events, self.clock)
        self.broker: Broker | None = None  # while it reads its directory, or waits to join

    async def run(self, ready: Callable[[Ready], None], stopping: asyncio.Event) -> None:
        self.loop.set_exception_handler(lambda _, context: self._unhandled(context))
        try:
            await self._live(ready, stopping)
        finally:
            await self.http.stop()
            self._stop_jobs()  # a start that was refused leaves them at work, and they report to a loop that closes
        self.events.event("stopped")

    async def _live(self, ready: Callable[[Ready], None], stopping: asyncio.Event) -> None:
        self._lock()
        http = self._open_http()
        self.broker = broker = await self._unless(stopping, self._start())
        if broker is None:
            return
        limits = ConnectionLimits(broker.layers, self.servers, broker.metrics)
        tick = self.loop.create_task(self._tick(broker, limits))
        addresses = await self._unless(stopping, self._come_up(broker, limits, http))
        if addresses is not None:
            gc.freeze()  # what is there now stays; spares every later collection the walk
            gc.set_threshold(50_000, 20, 20)
            ready(addresses)
            watchdog = LoopWatchdog(self.loop, broker.metrics, self.events)
            await stopping.wait()
            watchdog.stop()
        await self._stop(broker, tick)

    async def _unless(self, stopping: asyncio.Event, coming: Coroutine[Any, Any, T]) -> T | None:
        """None when the broker is to stop before that: what waits for others may take its time."""
        task = self.loop.create_task(coming)
        stopped = self.loop.create_task(stopping.wait())
        await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if task.done():
            return task.result()
        task.cancel()
        return None

    def _lock(self) -> None:
        where = self.settings.data_directory
        try:
            self.disk.lock()
        except BlockingIOError as error:
            raise StartProblem(f"log.dirs={where} is {error.strerror}: stop it, or use another") from error
        except OSError as error:
            raise StartProblem(_unusable(where, error)) from error

    def _open_http(self) -> Address:
        """First of all: who waits for others is alive and not ready, and whoever watches it shall know."""
        try:
            address = self.http.bind(self.settings.http)
        except OSError as error:
            raise StartProblem(f"tidemill.http.listener={self.settings.http}: {error.strerror or error}") from error
        self.http.serve(lambda: _http_application(lambda: self.broker))
        return address

    async def _start(self) -> Broker:
        where = f"log.dirs={self.settings.data_directory}"
        machine, settings = self._machine(), self.settings
        try:
            identity, store, found = await wiring.open_directory(
                self.disk, settings.broker_id, settings.join, machine, self._options()
            )
        except (DirectoryProblem, JournalDamaged) as problem:
            raise StartProblem(f"{where}: {problem}") from problem
        except OSError as error:
            raise StartProblem(_unusable(self.settings.data_directory, error)) from error
        self.events.event(
            "recovered", blocks=found.blocks, rows=found.rows, cut_bytes=found.cut_bytes, shards=len(store.shards)
        )
        if not is_compiled():
            self.events.warning("records are walked in plain Python", fix="install a C compiler and Tidemill again")
        for key in self.settings.ineffective_keys:
            self.events.warning("setting has no effect here", key=key)
        try:
            return wiring.make(identity, store, settings.static, machine)
        except (DirectoryProblem, SegmentDamaged, MetadataFormatError) as problem:
            raise StartProblem(f"{where}: {problem}") from problem

    async def _come_up(self, broker: Broker, limits: ConnectionLimits, http: Address) -> Ready:
        try:
            await wiring.bring_up(broker, addresses=self.settings.join)
            return await self._listen(broker, limits, http)
        except DirectoryProblem as problem:
            raise StartProblem(f"log.dirs={self.settings.data_directory}: {problem}") from problem
        except OSError as error:
            raise StartProblem(
                f"tidemill.peer.listener={self.settings.peer.bind}: {error.strerror or error}"
            ) from error

    def _options(self) -> StoreOptions:
        from tidemill.model.config_resolution import BrokerLayers

        layers = BrokerLayers(static=self.settings.static)
        return StoreOptions(
            journal_bytes_max=broker_int(layers, "tidemill.journal.bytes.max"),
            producer_expiration_ms=broker_int(layers, "producer.id.expiration.ms"),
        )

    def _machine(self) -> Machine:
        journal = ThreadJobs(self.loop, name="journal")
        write_back = ThreadJobs(self.loop, name="write_back")
        background = ThreadJobs(self.loop, name="background")
        reads = ThreadJobs(self.loop, name="read", threads=READ_THREADS)
        self.jobs = [journal, write_back, background, reads]
        return Machine(
            turns=self.loop,
            clock=self.clock,
            entropy=OsEntropy(),
            journal_jobs=journal,
            write_back_jobs=write_back,
            background_jobs=background,
            read_jobs=reads,
            call_later=self.loop.call_later,
            failed=self._failed,
            events=self.events,
            links=self._links,
        )

    def _links(self, owner: LinkOwner) -> PeerLinks:
        def report(problem: str) -> None:
            self.events.warning("no link to a broker", problem=problem)

        return PeerLinks(self.loop, self.settings.peer, owner, self.settings.cluster_key, OsEntropy(), report)

    def _failed(self, error: BaseException) -> None:
        """The machine is wrong: what this process believes to be on disk may not be there.  End now, flush nothing."""
        self.events.error("the broker ends", problem=f"{type(error).__name__}: {error}")
        sys.stderr.flush()
        os._exit(FAILED_EXIT)

    def _unhandled(self, context: dict[str, Any]) -> None:
        """A mistake of ours that nobody caught: the loop goes on, one line tells of it."""
        if self.broker is not None:
            self.broker.metrics.request_failures += 1
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.events.failure(context["message"], error)
        else:
            self.events.error(context["message"])

    async def _tick(self, broker: Broker, limits: ConnectionLimits) -> None:
        """A broker that no longer ticks elects nobody and frees no journal: what ends this ends the process."""
        heap = QuietHeap(broker.metrics, broker.machine.background_jobs, self._failed)
        try:
            while True:
                broker.tick()
                limits.close_idle(self.loop.time())
                heap.tick(self.loop.time())
                await asyncio.sleep(TICK_S)
        except Exception as error:
            self._failed(error)

    async def _listen(self, broker: Broker, limits: ConnectionLimits, http: Address) -> Ready:
        frame_bytes_max = broker_int(broker.layers, "socket.request.max.bytes")
        endpoints = []
        for listener in self.settings.listeners:
            server = TcpServer(
                self.loop,
                _factory(broker, listener, frame_bytes_max),
                admit=limits.admit,
                backlog=broker_int(broker.layers, "socket.listen.backlog.size"),
                receive_buffer_bytes=broker_int(broker.layers, "socket.receive.buffer.bytes"),
                send_buffer_bytes=broker_int(broker.layers, "socket.send.buffer.bytes"),
            )
            try:
                await server.bind(listener.bind.host, listener.bind.port)
            except OSError as error:
                raise StartProblem(f"listeners={listener.name}://{listener.bind}: {error.strerror or error}") from error
            self.servers.append(server)
            address = listener.advertised_as(server.addresses[0][1])
            endpoints.append(Endpoint(listener.name, address.host, address.port, "PLAINTEXT"))
        rack = broker_value(broker.layers, "broker.rack")
        known = list(endpoints)
        if broker.cluster.address:
            peer = address_of("tidemill.peer.listener", broker.cluster.address)
            known.append(Endpoint(PEER_ENDPOINT, peer.host, peer.port, "PLAINTEXT"))
        if not http.is_wildcard:
            known.append(Endpoint(HTTP_ENDPOINT, http.host, http.port, "PLAINTEXT"))
        await wiring.register_broker(broker, tuple(known), rack if isinstance(rack, str) else None)
        for server in self.servers:
            await server.serve()  # not before clients can be told of this broker
        first = endpoints[0]
        kafka = str(Address(first.host, first.port))
        listeners = ",".join(f"{end.name}://{Address(end.host, end.port)}" for end in endpoints)
        self.events.event("ready", kafka=kafka, listeners=listeners, http=str(http))
        return Ready(kafka, str(http), self.disk.root)

    async def _stop(self, broker: Broker, tick: asyncio.Task[None]) -> None:
        self.events.event("stopping")
        for server in self.servers:
            server.stop_listening()
        try:
            await asyncio.wait_for(wiring.go_down(broker), STOP_S)
        except TimeoutError:
            self.events.warning("the stop took too long; the next start reads the journal")
        tick.cancel()
        for server in self.servers:
            server.close()
        await self.http.stop()
        self._stop_jobs()
        broker.store.close()

    def _stop_jobs(self) -> None:
        for jobs in self.jobs:
            jobs.stop()


def _http_application(broker: Callable[[], Broker | None]) -> "Application":
    from tidemill.app.observed import ObservedBroker
    from tidemill.http.application import Application

    observed = ObservedBroker(broker)
    return Application(observed, observed.reported)


def _data_directory(path: str) -> OsDisk:
    try:
        return OsDisk(path)
    except OSError as error:
        raise StartProblem(_unusable(path, error)) from error


def _unusable(path: str, error: OSError) -> str:
    return f"log.dirs={path} cannot be used ({error.strerror or error}): name a directory that this user may write to"


def _factory(broker: Broker, listener: Listener, frame_bytes_max: int) -> Callable[[Any], KafkaConnection]:
    return lambda writer: KafkaConnection(broker, listener.name, writer, frame_bytes_max)
