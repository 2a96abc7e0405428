"""Put a broker together and bring it up: the same steps on the real machine and in simulation.

identity ─▶ store (recovered) ─▶ Broker ─▶ metadata shard led ─▶ cluster founded ─▶ every shard led ─▶ groups ─▶ ready
"""

import asyncio
import base64
from collections.abc import Mapping

from tidemill.broker.broker import Broker
from tidemill.broker.machine import Machine
from tidemill.metadata.brokers import FoundCluster, RegisterBroker
from tidemill.metadata.metadata_records import Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId
from tidemill.model.entropy import Entropy
from tidemill.shard.pending import Pending
from tidemill.shard.shard import Shard
from tidemill.storage.data_directory import DirectoryProblem, Identity, read_identity, write_identity
from tidemill.storage.disk import Disk
from tidemill.storage.recovery import Found, found_directory, open_store
from tidemill.storage.store import Store, StoreOptions

FIRST_BROKER = BrokerId(1)


def open_directory(
    disk: Disk, broker_id: BrokerId | None, entropy: Entropy, options: StoreOptions
) -> tuple[Identity, Store, Found]:
    """Whose directory this is, and what is in it.  An empty one founds a cluster."""
    identity = read_identity(disk)
    if identity is None:
        identity = Identity(
            cluster_id=base64.urlsafe_b64encode(entropy.random_bytes(16)).rstrip(b"=").decode(),
            broker_id=FIRST_BROKER if broker_id is None else broker_id,
            directory_id=DirectoryId(entropy.random_bytes(16)),
            journal_key=entropy.random_bytes(16),
        )
        found_directory(disk, identity.journal_key, options)
        write_identity(disk, identity)
    elif broker_id is not None and broker_id != identity.broker_id:
        raise DirectoryProblem(
            f"broker.id={broker_id}, but log.dirs belongs to broker {identity.broker_id}: "
            "set that, or use another directory"
        )
    store, found = open_store(disk, identity.journal_key, options)
    return identity, store, found


async def bring_up(identity: Identity, store: Store, static: Mapping[str, str], machine: Machine) -> Broker:
    """A broker that leads what it can lead; it listens nowhere yet."""
    broker = Broker(store, identity, static, machine)
    controller = broker.controller
    shard = broker.shard_table.open_metadata(controller.image)
    if shard.log.damage is not None:
        raise DirectoryProblem(f"{shard.log.damage}; it holds the cluster's metadata: restore it from a copy")
    await _confirmed(shard)
    controller.on_image = broker.follow
    controller.attach(shard)
    controller.begin()
    founded = await answer_of(controller.submit(FoundCluster(cluster_id=identity.cluster_id, voter=identity.voter)))
    if founded.problem is not None:
        raise DirectoryProblem(founded.problem.message)
    for shard in list(broker.shard_table.shards.values()):
        if shard.log.damage is None:
            await _confirmed(shard)
    broker.coordinators.begin()
    return broker


async def register(broker: Broker, endpoints: tuple[Endpoint, ...], rack: str | None) -> None:
    """Tell the cluster where clients reach this broker; from then on it is ready."""
    command = RegisterBroker(
        broker_id=broker.broker_id, directory_id=broker.identity.directory_id, endpoints=endpoints, rack=rack
    )
    registered = await answer_of(broker.controller.submit(command))
    if registered.problem is not None:
        raise DirectoryProblem(registered.problem.message)
    broker.is_ready = True
    broker.retention.begin()


async def answer_of(pending: Pending):  # type: ignore[no-untyped-def]
    """For the few who wait in a coroutine."""
    future = asyncio.get_running_loop().create_future()
    pending.then(future.set_result)
    return await future


async def _confirmed(shard: Shard) -> None:
    """Its term's first entry has committed."""
    while not shard.is_serving:
        future = asyncio.get_running_loop().create_future()
        shard.when_confirmed(future.set_result)
        await future


async def go_down(broker: Broker) -> None:
    """A clean stop: whoever waits is answered, everything is durable, and the next start has little to read."""
    broker.is_ready = False
    for connection in [*broker.connections]:
        connection.stop_receiving()
    broker.retention.stop()
    broker.coordinators.stop()
    broker.shard_table.stop()
    broker.ready_loop.begin_stop()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def idle() -> None:
        if not future.done():  # else nobody waits any more
            future.set_result(None)

    broker.ready_loop.when_idle(idle)
    await future
