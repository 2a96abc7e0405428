"""ShardIndex: shards by what the planner looks for."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import TypeVar

import pytest

from tests.unit.rebalance.modelled_cluster import GIB, START_MS, ModelledCluster
from tidemill.metadata.image import Shard
from tidemill.model.broker_id import BrokerId
from tidemill.model.move_reason import Reason
from tidemill.model.shard import ShardId
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import Work, finish

V = TypeVar("V")
SEEDS = range(20)


class Counting(Mapping[ShardId, V]):
    """A mapping that counts how often it is read."""

    def __init__(self, values: Mapping[ShardId, V]) -> None:
        self._values = values
        self.reads = 0

    def __getitem__(self, key: ShardId) -> V:
        self.reads += 1
        return self._values[key]

    def __iter__(self) -> Iterator[ShardId]:
        for key in self._values:
            self.reads += 1
            yield key

    def __len__(self) -> int:
        return len(self._values)


def contents(index: ShardIndex) -> dict[str, object]:
    brokers = [BrokerId(number) for number in range(1, 7)]
    return {
        "carried": {broker_id: sorted(index.carried(broker_id)) for broker_id in brokers},
        "led": {broker_id: sorted(index.led(broker_id)) for broker_id in brokers},
        "bytes": {broker_id: index.planned_bytes[broker_id] for broker_id in brokers},
        "unknown": {broker_id: index.unknown[broker_id] for broker_id in brokers},
        "not in sync": {broker_id: index.not_in_sync[broker_id] for broker_id in brokers},
        "under way": sorted(index.under_way),
        "missing bytes": index.missing_bytes,
        "untold": sorted(index.untold),
        "awaits leader": sorted(index.awaits_leader),
        "crowded": sorted(index.crowded),
    }


def catch_up(cluster: ModelledCluster, index: ShardIndex) -> None:
    image, view = cluster.image, cluster.view
    finish(index.catch_up(image, view, BrokerSet(image, view).racks, Work(), cluster.now_ms))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_index_equals_one_that_counts_everything_anew(seed: int) -> None:
    """Whatever changes, what is counted step by step is what the image and the view say."""
    random = Random(seed)
    cluster = ModelledCluster(["a", "a", "b", "b", "c", None])
    for _ in range(200):
        shard_id = random.choice([*cluster.shards, 0])
        replicas = random.sample(range(1, 7), random.randint(1, 4))
        action = random.randrange(6)
        if action == 0 or shard_id == 0:
            cluster.add(*replicas, size=random.randrange(GIB))
        elif action == 1:
            cluster.plan(shard_id, *replicas, reason=random.choice([*Reason]))
        elif action == 2 and shard_id != max(cluster.shards):
            del cluster.shards[shard_id]
            cluster.index.changed([ShardId(shard_id)])
        elif action == 3:
            cluster.forget(shard_id)
        elif action == 4:
            cluster.set(random.randint(1, 6), is_ready=random.random() < 0.5)
        else:
            cluster.advance()
        if random.random() < 0.3:
            catch_up(cluster, cluster.index)
    catch_up(cluster, cluster.index)
    anew = ShardIndex(0)
    catch_up(cluster, anew)

    assert contents(anew) == contents(cluster.index)


def test_loads_are_kept_incrementally() -> None:
    """A pass looks only at shards that were noted: counting all of them anew takes tens of milliseconds."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(500):
        cluster.add(1, 2, 3)
    catch_up(cluster, cluster.index)
    image, view = cluster.image, cluster.view
    racks = BrokerSet(image, view).racks
    shards: Counting[Shard] = Counting(image.shards)
    object.__setattr__(image, "shards", shards)

    cluster.index.changed([ShardId(7), ShardId(8)])
    finish(cluster.index.catch_up(image, view, racks, Work(), cluster.now_ms))

    assert 2 == shards.reads


def test_a_pass_that_is_given_up_leaves_the_rest_to_the_next() -> None:
    """A controller that loses its leadership in the middle of a pass drops it; nothing is forgotten."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(200):
        cluster.add(1, 2, 3)
    catch_up(cluster, cluster.index)
    for shard_id in range(1, 201):
        cluster.plan(shard_id, 4, 2, 3, reason=Reason.USER)
    image, view = cluster.image, cluster.view
    slices = cluster.index.catch_up(image, view, BrokerSet(image, view).racks, Work(), cluster.now_ms)
    next(slices)
    slices.close()
    assert 0 < len(cluster.index.under_way) < 200

    catch_up(cluster, cluster.index)

    assert (200, 0) == (len(cluster.index.carried(BrokerId(4))), len(cluster.index.carried(BrokerId(1))))


def test_a_change_during_a_pass_waits_for_the_next() -> None:
    """The pass has an image without that change, and would count the shard as deleted."""
    cluster = ModelledCluster([None] * 4)
    for _ in range(100):
        cluster.add(1, 2, 3)
    image, view = cluster.image, cluster.view
    slices = cluster.index.catch_up(image, view, BrokerSet(image, view).racks, Work(), cluster.now_ms)
    next(slices)
    cluster.add(1, 2, 3)
    finish(slices)
    assert 100 == len(cluster.index.carried(BrokerId(1)))

    catch_up(cluster, cluster.index)

    assert 101 == len(cluster.index.carried(BrokerId(1)))


def test_the_index_observes_when_steps_begin_and_end() -> None:
    """A step begins when its record is in the image, and ends when the members in force are the planned ones."""
    cluster = ModelledCluster([None] * 4)
    cluster.add(1, 2, 3)
    catch_up(cluster, cluster.index)
    cluster.plan(1, 1, 2, 4, reason=Reason.COUNT)
    catch_up(cluster, cluster.index)
    began = cluster.index.last_step(ShardId(1))
    cluster.advance(milliseconds=7_000)
    catch_up(cluster, cluster.index)

    assert (Reason.COUNT, START_MS, None) == began
    assert (Reason.COUNT, START_MS, START_MS + 7_000) == cluster.index.last_step(ShardId(1))
    assert [0, 0, START_MS + 7_000, START_MS + 7_000] == [
        cluster.index.step_ended_at_ms(BrokerId(number)) for number in (1, 2, 3, 4)
    ]


def test_bytes_that_new_replicas_lack_are_counted_until_they_vote() -> None:
    """A newcomer lacks everything until its leader has told how much; a shard that is deleted lacks nothing."""
    cluster = ModelledCluster([None] * 5)
    for _ in range(2):
        cluster.add(1, 2, 3, size=10 * GIB)
    told = []

    def delete() -> None:
        del cluster.shards[2]
        cluster.index.changed((ShardId(2),))

    for change in (
        lambda: cluster.plan(1, 1, 4, 5, reason=Reason.DRAIN),
        lambda: cluster.plan(2, 1, 2, 4, reason=Reason.DRAIN),
        delete,
        cluster.advance,
    ):
        change()
        catch_up(cluster, cluster.index)
        told.append(cluster.index.missing_bytes // GIB)

    assert [20, 30, 20] == told[:3]
    assert told[3] < 20


def test_a_change_of_the_preferred_leader_ends_when_it_leads() -> None:
    """Until then, its load is still measured at the old leader."""
    cluster = ModelledCluster([None] * 3)
    cluster.add(1, 2, 3)
    catch_up(cluster, cluster.index)
    cluster.plan(1, 2, 1, 3, reason=Reason.LEADER)
    catch_up(cluster, cluster.index)
    awaited = [*cluster.index.awaits_leader]
    cluster.advance()
    catch_up(cluster, cluster.index)

    assert ([1], []) == (awaited, [*cluster.index.awaits_leader])
    assert (1, 0) == tuple(cluster.index.leaders_left(BrokerId(number), cluster.now_ms) for number in (1, 2))
    assert START_MS + 1_000 == cluster.index.step_ended_at_ms(BrokerId(2))
