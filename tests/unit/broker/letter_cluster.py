"""A cluster whose share group has a topic for dead letters, and what its tests ask it."""

from collections.abc import Sequence

from tests.unit.broker.cluster_world import ClusterWorld, Node
from tests.unit.broker.share_member import WAIT_MS, ShareMember, configure_group
from tests.unit.broker.sharing_cluster import sharing_cluster
from tidemill.batches.compression import Codec
from tidemill.batches.records import Record
from tidemill.broker.shares.led_share import LedShare
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.share.acknowledgement import Acknowledgement
from tidemill.share.share import Share
from tidemill.wire.messages import incremental_alter_configs

DEAD = "dlq.jobs"
ENABLE = "errors.deadletterqueue.group.enable"
TOPIC_TYPE, BROKER_TYPE = 2, 4


def letter_cluster() -> ClusterWorld:
    """Return a cluster whose broker 1 coordinates the share group `g`, and whose broker 2 leads the topic `jobs`."""
    made = sharing_cluster()
    configure(made, errors_deadletterqueue_topic_name=DEAD)
    return made


def configure(world: ClusterWorld, **settings: str) -> None:
    configure_group(world.controller, share_auto_offset_reset="earliest", **settings)


def set_config(world: ClusterWorld, kind: int, resource: str, name: str, value: str) -> None:
    config = incremental_alter_configs.Request.Resource.Config(name=name, config_operation=0, value=value)
    asked = incremental_alter_configs.Request.Resource(resource_type=kind, resource_name=resource, configs=[config])
    (answer,) = world.controller.ask(
        incremental_alter_configs.Request(resources=[asked], validate_only=False)
    ).responses
    assert not answer.error_code, answer.error_message


def create_dead_letter_topic(world: ClusterWorld, leader: int = 3, partitions: int = 1) -> None:
    others = [number for number in (1, 2, 3) if number != leader]
    world.create(DEAD, partitions, brokers=(leader, *others), errors_deadletterqueue_group_enable="true")


def joined(world: ClusterWorld, at: int = 2) -> ShareMember:
    member = ShareMember(world[at], "m", coordinator=world[1])
    member.join("jobs")
    return member


def kill_records(
    world: ClusterWorld,
    values: Sequence[bytes],
    at: int = 2,
    headers: Sequence[tuple[str, bytes | None]] = (),
    codec: Codec = Codec.NONE,
) -> ShareMember:
    """Produce records, receive and reject them."""
    member = joined(world, at)
    world[at].produce("jobs", *values, headers=headers, codec=codec)
    offsets = [it.offset for it in member.receive(max_wait_ms=WAIT_MS)]
    assert errors.NONE == member.acknowledge(offsets[0], offsets[-1], Acknowledgement.REJECT)
    return member


def share(node: Node) -> Share:
    found = shares_of(node.partition("jobs")).of_group("g")
    assert found is not None, "the group has not read the partition"
    return found


def led(node: Node) -> LedShare:
    (found,) = node.broker.shares.led_shares
    return found


def letters(world: ClusterWorld, topic: str = DEAD) -> list[Record]:
    world.until(lambda: world.led_by(topic) != 0, f"{topic} is led")
    return world[world.led_by(topic)].read(topic)


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def headers(record: Record) -> dict[str, bytes | None]:
    return dict(record.headers)


def wait_for(world: ClusterWorld, count: int, topic: str = DEAD) -> list[Record]:
    world.until(lambda: len(letters(world, topic)) >= count, f"{count} letters")
    world.pass_time(2_000)
    found = letters(world, topic)
    assert len(found) == count, found
    return found
