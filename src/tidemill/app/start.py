"""The composition root of one broker process: starts the broker, reports when it is ready, and stops it in order.

Only adapters, such as the commands, are in a layer above this one.  After a failure of the machine, such as a failed
sync, this module ends the process immediately.
"""

import asyncio
import errno
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from tidemill.app.connection_limits import ConnectionLimits
from tidemill.app.held_ports import HeldPorts
from tidemill.app.http_listener import HttpListener
from tidemill.app.listeners import HTTP_LISTENER, PEER_LISTENER, Address, Listener, address_of
from tidemill.app.loop_watchdog import LoopWatchdog
from tidemill.app.peer_links import PeerLinks
from tidemill.app.quiet_heap import QuietHeap
from tidemill.app.settings import Settings
from tidemill.app.start_problem import SettingProblem, StartProblem, unbindable
from tidemill.batches.native import is_compiled
from tidemill.broker.broker import Broker
from tidemill.broker.connection.kafka_connection import KafkaConnection
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.machine import Machine
from tidemill.broker.startup import wiring
from tidemill.metadata.metadata_records import HTTP_ENDPOINT, PEER_ENDPOINT, Endpoint, MetadataFormatError
from tidemill.model.clock import Clock, PreciseClock
from tidemill.model.config_resolution import broker_int, broker_value
from tidemill.peer.link import LinkOwner
from tidemill.runtime import event_loop
from tidemill.runtime.heap import keep_large_blocks_out_of_heap, use_one_heap
from tidemill.runtime.open_files_limit import raise_open_files_limit
from tidemill.runtime.os_clock import OsClock, process_cpu_us
from tidemill.runtime.os_disk import OsDisk
from tidemill.runtime.os_entropy import OsEntropy
from tidemill.runtime.tcp_server import TcpServer
from tidemill.runtime.thread_jobs import ThreadJobs
from tidemill.storage.data_directory import DirectoryProblem, WrongDirectory
from tidemill.storage.partition.segment import SegmentDamaged
from tidemill.storage.recovery import JournalDamaged
from tidemill.storage.store import StoreOptions
from tidemill.telemetry.event_log import EventLog

if TYPE_CHECKING:
    from tidemill.http.application import Application

T = TypeVar("T")

TICK_S: Final = 0.25
ABSENT_MS_MAX: Final = 10_000  # a broker that restarts at once is back by then
READ_THREADS: Final = 2  # threads for reads that wait for the disk; they release the GIL
COMPRESSION_THREADS_MAX: Final = 4  # threads that recompress batches, at most one per core; they release the GIL
STOP_S: Final = 1.5  # a clean stop takes less; if it times out, the next start replays the journal
_CANNOT_BIND: Final = frozenset({errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES})
FAILED_EXIT: Final = 1  # the exit code of every failed command, `cli.failure.ExitCode.FAILED`


class Ready(NamedTuple):
    """The broker's addresses and its data directory, as text."""

    kafka: str
    http: str
    peer: str
    data: str


def run(
    settings: Settings,
    *,
    ready: Callable[[Ready], None],
    as_json: bool,
    extra_coordinators: Sequence[AnyRegistration] = (),
    clock: PreciseClock | None = None,
    opened: Callable[[Broker], None] | None = None,
) -> None:
    """Run a broker until SIGINT or SIGTERM.

    `ready` is called once the broker serves, and `opened` immediately before, with the broker.  `extra_coordinators`
    are hosted in addition to the usual ones.  `clock` replaces that of the operating system.
    Raises StartProblem if the broker cannot start, and SettingProblem also if the cluster removes it while it runs.
    """
    raise_open_files_limit()
    stopping = asyncio.Event()

    async def main(loop: asyncio.AbstractEventLoop) -> None:
        process = _Process(
            settings, loop, clock or OsClock(), as_json=as_json, extra_coordinators=extra_coordinators, opened=opened
        )
        await process.run(ready, stopping)

    event_loop.run(main, stop=stopping.set)


class _Process:
    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        clock: PreciseClock,
        *,
        as_json: bool,
        extra_coordinators: Sequence[AnyRegistration],
        opened: Callable[[Broker], None] | None,
    ) -> None:
        self.settings = settings
        self.extra_coordinators = extra_coordinators
        self.opened = opened
        self.loop = loop
        self.clock = clock
        # Several brokers may share stderr, so each event names its broker.
        named = {} if settings.broker_id is None else {"broker": int(settings.broker_id)}
        self.events = EventLog(sys.stderr.write, self.clock.wall_ms, as_json=as_json, common_fields=named)
        if not os.path.exists(settings.data_directory):
            _check_ports(settings)  # before the directory is created
        self.disk = _data_directory(settings.data_directory)
        self.servers: list[TcpServer] = []
        self.jobs: list[ThreadJobs] = []
        self.http = HttpListener(loop, self.events, self.clock)
        self._http_address = settings.http  # with the port that is open, once it is
        self.broker: Broker | None = None  # None while the process recovers its directory or waits to join

    async def run(self, ready: Callable[[Ready], None], stopping: asyncio.Event) -> None:
        self.loop.set_exception_handler(lambda _, context: self._unhandled(context))
        try:
            await self._serve(ready, stopping)
        finally:
            await self.http.stop()
            self._stop_jobs()  # A failed start leaves jobs running, which would report to a closed loop.
        self.events.event("stopped")

    async def _serve(self, ready: Callable[[Ready], None], stopping: asyncio.Event) -> None:
        use_one_heap()
        self._lock()
        _check_ports(self.settings)
        http = self._open_http()
        self.broker = broker = await self._unless_stopped(stopping, self._start())
        if broker is None:
            return
        limits = ConnectionLimits(broker.layers, self.servers, broker.metrics)
        tick = self.loop.create_task(self._tick(broker, limits, stopping))
        addresses = await self._unless_stopped(stopping, self._bring_up(broker, limits, http))
        if addresses is not None:
            gc.freeze()  # Objects made during the start live long: exclude them from later collections.
            gc.set_threshold(50_000, 20, 20)
            keep_large_blocks_out_of_heap()
            if self.opened is not None:
                self.opened(broker)
            ready(addresses)
            watchdog = LoopWatchdog(self.loop, broker.metrics, self.events)
            await stopping.wait()
            watchdog.stop()
        await self._stop(broker, tick)
        if broker.removal_watch.problem is not None:
            raise SettingProblem(f"log.dirs={self.settings.data_directory}: {broker.removal_watch.problem}")

    async def _unless_stopped(self, stopping: asyncio.Event, coming: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `coming`.  If a stop is requested before it ends, cancel it and return None."""
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
            raise StartProblem(
                f"log.dirs={where} is {error.strerror}: stop that process, or set another directory"
            ) from error
        except OSError as error:
            raise StartProblem(_unusable(where, error)) from error

    def _open_http(self) -> Address:
        """Open the HTTP listener and return its address.

        This happens first, because a broker must answer liveness and readiness probes even while it waits for others.
        """
        try:
            address = self.http.bind(self.settings.http)
        except OSError as error:
            raise unbindable(HTTP_LISTENER, self.settings.http, error) from error
        self.http.serve(lambda: _http_application(lambda: self.broker, self.settings, self.clock), self._kafka_port)
        self._http_address = address
        return self.settings.http_advertised or address

    def _static(self) -> Mapping[str, str]:
        """Return the settings as clients see them: with the port that is open, which `tidemill.connect` looks up."""
        static = self.settings.static
        return static if self.settings.http.port else {**static, HTTP_LISTENER: str(self._http_address)}

    def _kafka_port(self) -> int | None:
        """Return the port of the first listener; None before it is bound."""
        return self.servers[0].addresses[0][1] if self.servers else None

    async def _start(self) -> Broker:
        where = f"log.dirs={self.settings.data_directory}"
        machine, settings = self._machine(), self.settings
        try:
            identity, store, found = await wiring.open_directory(
                self.disk, settings.broker_id, settings.join, machine, self._options()
            )
        except WrongDirectory as problem:
            raise SettingProblem(f"{where}: {problem}") from problem
        except (DirectoryProblem, JournalDamaged) as problem:
            raise StartProblem(f"{where}: {problem}") from problem
        except OSError as error:
            raise StartProblem(_unusable(self.settings.data_directory, error)) from error
        self.events.event(
            "recovered", blocks=found.blocks, rows=found.rows, cut_bytes=found.cut_bytes, shards=len(store.shards)
        )
        if not is_compiled():
            self.events.warning(
                "compiled extension not found, parsing records in Python",
                fix="install a C compiler, then reinstall Tidemill",
            )
        for key in self.settings.ineffective_keys:
            self.events.warning("setting has no effect", key=key)
        try:
            return wiring.make(identity, store, self._static(), machine, self.extra_coordinators)
        except (DirectoryProblem, SegmentDamaged, MetadataFormatError) as problem:
            raise StartProblem(f"{where}: {problem}") from problem

    async def _bring_up(self, broker: Broker, limits: ConnectionLimits, http: Address) -> Ready:
        try:
            await wiring.bring_up(broker, addresses=self.settings.join)
            return await self._listen(broker, limits, http)
        except WrongDirectory as problem:
            raise SettingProblem(f"log.dirs={self.settings.data_directory}: {problem}") from problem
        except DirectoryProblem as problem:
            raise StartProblem(f"log.dirs={self.settings.data_directory}: {problem}") from problem
        except OSError as error:
            raise unbindable(PEER_LISTENER, self.settings.peer.bind, error) from error

    def _options(self) -> StoreOptions:
        from tidemill.model.config_resolution import BrokerLayers

        layers = BrokerLayers(static=self.settings.static)
        return StoreOptions(
            journal_bytes_max=broker_int(layers, "tidemill.journal.bytes.max"),
            producer_expiration_ms=broker_int(layers, "producer.id.expiration.ms"),
            absent_ms_max=ABSENT_MS_MAX,
        )

    def _machine(self) -> Machine:
        journal = ThreadJobs(self.loop, name="journal")
        write_back = ThreadJobs(self.loop, name="write_back")
        background = ThreadJobs(self.loop, name="background")
        reads = ThreadJobs(self.loop, name="read", threads=READ_THREADS)
        openings = ThreadJobs(self.loop, name="opening")
        threads = min(COMPRESSION_THREADS_MAX, os.cpu_count() or 1)
        compression = ThreadJobs(self.loop, name="compression", threads=threads)
        self.jobs = [journal, write_back, background, reads, openings, compression]
        return Machine(
            turns=self.loop,
            clock=self.clock,
            entropy=OsEntropy(),
            journal_jobs=journal,
            write_back_jobs=write_back,
            background_jobs=background,
            read_jobs=reads,
            opening_jobs=openings,
            compression_jobs=compression,
            call_later=self.loop.call_later,
            failed=self._failed,
            events=self.events,
            cpu_us=process_cpu_us,
            links=self._links,
        )

    def _links(self, owner: LinkOwner) -> PeerLinks:
        return PeerLinks(self.loop, self.settings.peer, owner, self.settings.cluster_key, OsEntropy(), self.events)

    def _failed(self, error: BaseException) -> None:
        """End the process immediately, without flushing anything.

        The machine has failed: data that the broker assumes to be on disk may be missing.
        """
        self.events.error("fatal error, the broker exits", problem=f"{type(error).__name__}: {error}")
        sys.stderr.flush()
        os._exit(FAILED_EXIT)

    def _unhandled(self, context: dict[str, Any]) -> None:
        """Log an exception that no other code handled; the loop continues."""
        if self.broker is not None:
            self.broker.metrics.request_failures += 1
        error = context.get("exception")
        if isinstance(error, BaseException):
            self.events.failure(context["message"], error)
        else:
            self.events.error(context["message"])

    async def _tick(self, broker: Broker, limits: ConnectionLimits, stopping: asyncio.Event) -> None:
        """Run the broker's periodic work, and stop the process if the cluster has removed the broker.

        Without this work, the broker would hold no elections and free no journal space.  Any exception therefore ends
        the process.
        """
        heap = QuietHeap(broker.metrics, broker.machine.background_jobs, self._failed)
        try:
            while True:
                broker.tick()
                if broker.removal_watch.problem is not None:
                    stopping.set()
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
                raise unbindable("listeners", f"{listener.name}://{listener.bind}", error) from error
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
            await server.serve()  # Serve only after registration, which puts this broker's address in the metadata.
        first = endpoints[0]
        kafka = str(Address(first.host, first.port))
        listeners = ",".join(f"{end.name}://{Address(end.host, end.port)}" for end in endpoints)
        ready = Ready(kafka, str(http), broker.cluster.address, self.disk.root)
        self.events.event("ready", listeners=listeners, **ready._asdict())
        return ready

    async def _stop(self, broker: Broker, tick: asyncio.Task[None]) -> None:
        self.events.event("stopping")
        for server in self.servers:
            server.stop_listening()
        try:
            await asyncio.wait_for(wiring.go_down(broker), STOP_S)
        except TimeoutError:
            self.events.warning("clean stop timed out, the next start replays the journal", timeout_s=STOP_S)
        tick.cancel()
        for server in self.servers:
            server.close()
        await self.http.stop()
        self._stop_jobs()
        broker.store.close()

    def _stop_jobs(self) -> None:
        for jobs in self.jobs:
            jobs.stop()


def _http_application(broker: Callable[[], Broker | None], settings: Settings, clock: Clock) -> "Application":
    from tidemill.app.lazy_api import LazyApi
    from tidemill.app.lazy_console import LazyConsole
    from tidemill.app.observed import ObservedBroker, program_version
    from tidemill.http.access import Access
    from tidemill.http.application import Application

    observed = ObservedBroker(broker, settings.join)
    known = [settings.http, settings.http_advertised]
    hosts = frozenset(it.host.lower() for it in known if it is not None and not it.is_wildcard)
    access = Access(token=settings.http_token, hosts=hosts)
    return Application(
        observed, observed.reported, LazyConsole(broker, clock), access, LazyApi(broker, program_version())
    )


def _data_directory(path: str) -> OsDisk:
    try:
        return OsDisk(path)
    except OSError as error:
        raise StartProblem(_unusable(path, error)) from error


def _check_ports(settings: Settings) -> None:
    """
    Raise StartProblem if a port of the settings is taken, not allowed or at an address of another machine, so that a
    broker that cannot listen neither writes to its directory nor joins a cluster.
    """
    listeners = [("listeners", f"{it.name}://{it.bind}", it.bind) for it in settings.listeners]
    own = ((HTTP_LISTENER, settings.http), (PEER_LISTENER, settings.peer.bind))
    ports = HeldPorts()
    try:
        for key, value, address in (*((key, str(address), address) for key, address in own), *listeners):
            try:
                if address.port:
                    ports.take(address)
            except OSError as error:
                if error.errno in _CANNOT_BIND:  # any other error is reported where the address is bound
                    raise unbindable(key, value, error) from error
    finally:
        ports.close()


def _unusable(path: str, error: OSError) -> str:
    return f"log.dirs={path} cannot be used ({error.strerror or error}): set a directory that this user may write to"


def _factory(broker: Broker, listener: Listener, frame_bytes_max: int) -> Callable[[Any], KafkaConnection]:
    return lambda writer: KafkaConnection(broker, listener.name, writer, frame_bytes_max)
