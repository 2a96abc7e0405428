"""Wiring: creates, starts and stops a broker, in the same way on a real machine and in the simulation.

identity ─▶ store (recovered) ─▶ Broker ─▶ shard 0, and the shards of its image ─▶ links ─▶ the cluster's image
   └── from the cluster, if joining    ready ◀─ registered ◀─ leads each shard of which it is the only voter ◀─┘
"""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.connection.peer_dispatcher import PeerDispatcher
from tidemill.broker.connection.peer_requests import PeerRequests
from tidemill.broker.coordinators.coordinator_registration import AnyRegistration
from tidemill.broker.coordinators.registrations import COORDINATORS
from tidemill.broker.machine import Machine
from tidemill.broker.peers.cluster import peer_addresses
from tidemill.broker.peers.unanswered import Unanswered, error_code_of
from tidemill.broker.startup.cluster_search import ClusterSearch
from tidemill.broker.startup.joining import NOT_NOW, Joining, refusal
from tidemill.metadata.brokers import BootstrapCluster
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.peer import join, register
from tidemill.shard.shard import Shard
from tidemill.storage.data_directory import DirectoryProblem, Identity, WrongDirectory, read_identity, write_identity
from tidemill.storage.disk import Disk
from tidemill.storage.machine.default_machines import default_machines
from tidemill.storage.machine.shard_machine import MachineRegistry
from tidemill.storage.recovery import (
    JournalDamaged,
    RecoveryReport,
    check_nothing_lost,
    initialize_directory,
    open_store,
)
from tidemill.storage.set_aside import set_aside
from tidemill.storage.store import Store, StoreOptions

FIRST_BROKER: Final = BrokerId(1)
AGAIN_S: Final = 0.2
STILL_ALIVE_MS: Final = 15_000  # how long peers may consider a dead broker alive before they close its connection
ASIDE: Final = "damaged-"  # prefix of the directories that hold damaged files that were set aside
LEADERSHIP_TRANSFER_S: Final = 1.0  # how long a clean stop waits for its leadership transfers


async def open_directory(
    disk: Disk,
    broker_id: BrokerId | None,
    addresses: Sequence[str],
    machine: Machine,
    options: StoreOptions,
    machines: MachineRegistry | None = None,
    newest_level: int = NEWEST,
) -> tuple[Identity, Store, RecoveryReport]:
    """
    Open the data directory.  If it is empty, join the cluster at `addresses`, or bootstrap a new cluster if there are
    none.  `newest_level` is the highest feature level that this version of Tidemill supports.
    """
    machines = machines or default_machines(options.producer_expiration_ms)
    identity = read_identity(disk)
    if identity is None:
        check_nothing_lost(disk)  # before joining, because admission replaces the directory registered under that id
        identity = await _new_identity(broker_id, addresses, machine, newest_level)
        initialize_directory(disk, identity.journal_key, options)
        write_identity(disk, identity)
    elif broker_id is not None and broker_id != identity.broker_id:
        raise WrongDirectory(
            f"broker.id={broker_id}, but log.dirs belongs to broker {identity.broker_id}: "
            "set that, or use another directory"
        )
    try:
        store, found = open_store(disk, identity.journal_key, options, machines)
    except JournalDamaged as damage:
        identity = await _begin_again(disk, identity, damage, addresses, machine, options, newest_level)
        store, found = open_store(disk, identity.journal_key, options, machines)
    return identity, store, found


async def _begin_again(
    disk: Disk,
    known: Identity,
    damage: JournalDamaged,
    addresses: Sequence[str],
    machine: Machine,
    options: StoreOptions,
    newest_level: int,
) -> Identity:
    """
    Replace a damaged journal (rule R7 of `docs/formats/journal.md`).  The journal may have contained votes, so the
    broker becomes a new voter with its old broker id and gets its data from the other replicas.  No file is changed
    until the cluster has admitted the new directory.
    """
    if not addresses:
        raise JournalDamaged(
            f"{damage}; nothing was changed. Bring the directory back from a copy; or, if there are other brokers, set "
            "tidemill.join to one of them: this one comes back as a new voter, and is given everything"
        )
    machine.events.error("journal damaged", problem=str(damage), then="asking the cluster to be a new voter")
    until_ms = machine.clock.monotonic_ms() + STILL_ALIVE_MS
    while True:
        try:
            identity = await _new_identity(known.broker_id, addresses, machine, newest_level)
            break
        except DirectoryProblem:
            if machine.clock.monotonic_ms() >= until_ms:
                raise
            await _wait(machine)  # the peers may still consider the previous process of this broker alive
    if identity.cluster_id != known.cluster_id:
        raise WrongDirectory(
            f"{damage}; and tidemill.join leads to cluster {identity.cluster_id}, where this directory belongs to "
            f"{known.cluster_id}: name a broker of that one"
        )
    moment = datetime.fromtimestamp(machine.clock.wall_ms() / 1_000, UTC)
    size = set_aside(disk, moment.strftime(f"{ASIDE}%Y%m%d-%H%M%S-%f"))
    machine.events.error(
        "journal set aside",
        directories=", ".join(
            name for name in disk.list("") if name.startswith(ASIDE)
        ),  # the list includes directories that an earlier, interrupted start has set aside
        bytes=size,
        then="this broker is a new voter; delete those directories when every topic is served again",
    )
    initialize_directory(disk, identity.journal_key, options)
    write_identity(disk, identity)
    return identity


async def _new_identity(
    broker_id: BrokerId | None, addresses: Sequence[str], machine: Machine, newest_level: int
) -> Identity:
    entropy = machine.entropy
    directory_id = DirectoryId(entropy.random_bytes(16))
    if not addresses:
        return Identity(
            cluster_id=base64.urlsafe_b64encode(entropy.random_bytes(16)).rstrip(b"=").decode(),
            broker_id=FIRST_BROKER if broker_id is None else broker_id,
            directory_id=directory_id,
            journal_key=entropy.random_bytes(16),
        )
    future: asyncio.Future[join.Response] = asyncio.get_running_loop().create_future()
    Joining(machine, addresses, directory_id, broker_id, newest_level, future.set_result).begin()
    answer = await future
    if answer.error_code:
        raise refusal(answer, broker_id)
    return Identity(
        cluster_id=answer.cluster_id,
        broker_id=BrokerId(answer.broker_id),
        directory_id=directory_id,
        journal_key=entropy.random_bytes(16),
        is_initial_voter=False,
    )


def make(
    identity: Identity,
    store: Store,
    static: Mapping[str, str],
    machine: Machine,
    extra_coordinators: Sequence[AnyRegistration] = (),
    newest_level: int = NEWEST,
) -> Broker:
    """
    Create a broker with the shards in its store.  The broker has no connections yet and is not listening.  The
    coordinators in `extra_coordinators` are hosted in addition to `COORDINATORS`.
    """
    broker = Broker(store, identity, static, machine, (*COORDINATORS, *extra_coordinators), newest_level)
    controller = broker.controller
    shard = broker.shard_table.open_metadata(broker.image, is_initial_voter=identity.is_initial_voter)
    if shard.log.damage is not None and not shard.damage.is_repairable:
        raise DirectoryProblem(f"{shard.log.damage}; it holds the cluster's metadata: restore it from a copy")
    broker.image_follower.on_image = broker.follow
    controller.on_lead = lambda: _bootstrap(broker)
    requests = PeerRequests(broker)
    broker.cluster.peers.attach(PeerDispatcher(broker, requests))
    broker.controller_client.handle = requests.handle
    broker.shares.letters.write_here = requests.write_letter_here
    controller.attach(shard)
    return broker


def _bootstrap(broker: Broker) -> None:
    """Bootstrap the cluster if it has no id yet.  Called when this broker becomes the controller."""
    identity = broker.identity
    if not broker.image.cluster_id:
        broker.controller.submit(
            BootstrapCluster(cluster_id=identity.cluster_id, voter=identity.voter, level=broker.newest_level)
        )


async def bring_up(broker: Broker, *, addresses: Sequence[str] = ()) -> None:
    """
    Connect to other brokers, including those at `addresses`.  Wait until this broker has the cluster image and serves
    each shard of which it is the only voter.
    """
    cluster, machine = broker.cluster, broker.machine
    if machine.links is not None:
        links = machine.links(cluster.peers)
        own: list[str] = [""]
        others: list[str] = []
        for record in broker.image_follower.brokers_heard_of():
            is_own = record.broker_id == broker.identity.broker_id
            (own if is_own else others).extend(peer_addresses(record.endpoints))
        cluster.address = await links.listen(own[-1])
        cluster.join, cluster.heard_of = addresses, others
        cluster.peers.links = links
        cluster.reach()
    await _hear_of_cluster(broker)
    if broker.image.cluster_id != broker.identity.cluster_id:
        raise WrongDirectory(
            f"this directory belongs to cluster {broker.identity.cluster_id}, and its metadata to cluster "
            f"{broker.image.cluster_id}: one of them was copied here; use another log.dirs"
        )
    await _until(broker, lambda: all(map(_is_started, broker.shard_table.shards.values())))


async def _hear_of_cluster(broker: Broker) -> None:
    """Wait for the cluster image."""
    search = ClusterSearch(broker)
    while not broker.image.cluster_id:
        search.check()
        await _pause(broker)


def _is_started(shard: Shard) -> bool:
    """
    Return whether the start does not have to wait for `shard`: it is serving, it is damaged, or it has other voters,
    which can serve it.
    """
    return shard.is_serving or shard.log.damage is not None or shard.replica.voters != (shard.replica.me,)


async def register_broker(broker: Broker, endpoints: tuple[Endpoint, ...], rack: str | None) -> None:
    """
    Register the broker's endpoints, and wait until the broker is ready, which means that its image is at least as new
    as the controller's image was at registration.
    """
    identity = broker.identity
    search = ClusterSearch(broker)
    code, image_offset = -1, 0
    while code:
        code, message, image_offset = await _register(broker, endpoints, rack)
        if code and code not in NOT_NOW:
            raise WrongDirectory(message or f"the cluster refuses this broker (error {code})")
        if code:
            search.check()
            await _pause(broker)

    def is_told() -> bool:
        known = broker.image.brokers.get(identity.broker_id)
        is_known = known is not None and known.voter == identity.voter and known.endpoints == endpoints
        return is_known and broker.image.offset >= image_offset

    while not is_told():
        search.check()
        await _pause(broker)
    broker.is_ready = True
    broker.cluster.heard_of = ()
    broker.cluster.reach()
    broker.retention.begin()


async def _register(broker: Broker, endpoints: tuple[Endpoint, ...], rack: str | None) -> tuple[int, str | None, int]:
    """Try to register once.  Return the error code, the error message, and the offset of the controller's image."""
    identity = broker.identity
    request = register.Request(
        broker_id=identity.broker_id,
        directory_id=identity.directory_id,
        endpoints=[register.Request.Endpoint(**endpoint._asdict()) for endpoint in endpoints],
        rack=rack,
        level=broker.newest_level,
    )
    future: asyncio.Future[register.Response | Unanswered] = asyncio.get_running_loop().create_future()
    broker.controller_client.ask(register.API, request).then(future.set_result)
    outcome = await future
    if isinstance(outcome, Unanswered):
        return error_code_of(outcome), None, 0
    return outcome.error_code, outcome.error_message, outcome.image_offset


async def _until(broker: Broker, is_so: Callable[[], bool]) -> None:
    """Wait until `is_so` returns True.  It is called when the image or a leader has changed, and periodically."""
    while not is_so():
        await _pause(broker)


async def _wait(machine: Machine) -> None:
    """Wait for `AGAIN_S` seconds, before another attempt."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    machine.call_later(AGAIN_S, lambda: future.set_result(None) if not future.done() else None)
    await future


async def _pause(broker: Broker) -> None:
    """Wait until the image or a leader has changed, but at most `AGAIN_S`."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resume() -> None:
        if not future.done():
            future.set_result(None)

    timer = broker.machine.call_later(AGAIN_S, resume)
    broker.cluster.watchers[resume] = None
    try:
        await future
    finally:
        timer.cancel()
        broker.cluster.watchers.pop(resume, None)


async def go_down(broker: Broker) -> None:
    """
    Stop cleanly: transfer leadership, answer outstanding requests, make all rows durable, and write a checkpoint, so
    that the next start has little to read.
    """
    broker.is_ready = False
    await _transfer_leadership(broker)
    for connection in [*broker.connections]:
        connection.stop_receiving()
    broker.retention.stop()
    broker.coordinators.stop()
    broker.cluster.stop()
    broker.shard_table.stop()
    broker.ready_loop.begin_stop()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def idle() -> None:
        if not future.done():  # it is already done if the stop was cancelled
            future.set_result(None)

    broker.ready_loop.when_idle(idle)
    await future
    if broker.cluster.peers.links is not None:
        broker.cluster.peers.links.close()


async def _transfer_leadership(broker: Broker) -> None:
    """Transfer leadership while this broker still serves clients, so that clients need not wait for an election."""
    until = broker.clock.monotonic_ms() + int(LEADERSHIP_TRANSFER_S * 1_000)
    leaving = [shard for shard in broker.shard_table.shards.values() if shard.transfer_leadership()]
    while broker.clock.monotonic_ms() < until and any(shard.replica.leads for shard in leaving):
        await _pause(broker)
