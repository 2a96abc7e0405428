"""Which brokers are silent, as the present controller knows it."""

from dataclasses import replace
from typing import Any

from tests.unit.metadata.controller_world import ENDPOINTS, voter
from tidemill.broker.controller.broker_watch import BrokerWatch
from tidemill.metadata.feature_levels import NEWEST
from tidemill.metadata.image import EMPTY, Broker, ClusterImage
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.broker_state import Presence
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.view import BrokerView

POLICY = Policy(silent_after_ms=60_000, gone_after_ms=300_000, active_after_ms=30_000)


def broker(number: int, **more: Any) -> Broker:
    key = voter(number)
    known = Broker(
        broker_id=key.broker_id, directory_id=key.directory_id, endpoints=ENDPOINTS, rack=f"r{number}", level=NEWEST
    )
    return replace(known, **more)


def image_of(*brokers: Broker) -> ClusterImage:
    return replace(EMPTY, brokers={it.broker_id: it for it in brokers})


class Hearing:
    """What the controller, broker 1, hears of brokers 1 to 4."""

    def __init__(self) -> None:
        self.heard = {2, 3, 4}  # by the controller
        self.unheard_by: dict[int, set[int]] = {}  # by peers
        self.unable: set[int] = set()
        self.keys = {number: voter(number) for number in (1, 2, 3, 4)}

    def live(self) -> frozenset[BrokerId]:
        return frozenset(map(BrokerId, {1, *self.heard}))

    def eligible_leaders(self) -> frozenset[BrokerId]:
        return self.live() - frozenset(map(BrokerId, self.unable))

    def unheard_by_peers(self) -> dict[BrokerId, frozenset[BrokerId]]:
        return {BrokerId(it): frozenset(map(BrokerId, self.unheard_by.get(it, set()))) for it in self.heard}

    def has(self, key: ReplicaKey) -> bool:
        return key.broker_id in self.live() and self.keys[key.broker_id] == key


class Watching:
    def __init__(self, image: ClusterImage | None = None) -> None:
        self.hearing = Hearing()
        self.image = image or image_of(*map(broker, (1, 2, 3, 4)))
        self.watch = BrokerWatch(self.hearing, BrokerId(1))
        self.index = ShardIndex(0)
        self.now_ms = 1_000_000

    def views(self) -> dict[int, BrokerView]:
        views = self.watch.views(self.image, {}, self.index, POLICY, self.now_ms)
        return {int(broker_id): view for broker_id, view in views.items()}

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            self.now_ms += 250
            self.watch.observe(self.image, POLICY, self.now_ms)

    def nobody_hears(self, number: int) -> None:
        self.hearing.heard.discard(number)
        for peer in self.hearing.heard:
            self.hearing.unheard_by.setdefault(peer, set()).add(number)


def test_a_broker_is_heard_by_the_others_that_are_live() -> None:
    watching = Watching()
    watching.nobody_hears(4)
    watching.hearing.unheard_by[2] = {1, 4}

    assert {1: 1, 2: 2, 3: 2, 4: 0} == {number: view.heard_by for number, view in watching.views().items()}


def test_silence_begins_when_the_last_broker_stops_hearing() -> None:
    """
    The controller has not heard broker 4 for minutes, and broker 2 has.  When broker 2 does not either, the silence is
    new: a broker that restarts at that moment must not be gone.
    """
    watching = Watching()
    watching.pass_time(31_000)
    watching.hearing.heard.discard(4)
    watching.hearing.unheard_by[3] = {4}
    watching.pass_time(600_000)
    heard_by_one = watching.views()[4]
    watching.nobody_hears(4)
    watching.pass_time(2_000)

    assert (False, 1, 0) == (heard_by_one.is_live, heard_by_one.heard_by, heard_by_one.silent_ms)
    assert (0, 2_000) == (watching.views()[4].heard_by, watching.views()[4].silent_ms)


def test_what_a_former_controller_recorded_counts() -> None:
    """
    A broker that is recorded as SILENT has been silent for as long as that takes; the others begin anew.
    """
    watching = Watching(image_of(broker(1), broker(2), broker(3), broker(4, presence=Presence.SILENT)))
    watching.nobody_hears(4)
    watching.nobody_hears(3)
    watching.pass_time(1_000)

    assert {3: 750, 4: 60_750} == {number: watching.views()[number].silent_ms for number in (3, 4)}


def test_a_new_directory_begins_anew() -> None:
    watching = Watching()
    watching.nobody_hears(4)
    watching.pass_time(50_000)
    other = ReplicaKey(BrokerId(4), DirectoryId(b"n" * 16))
    watching.image = image_of(*map(broker, (1, 2, 3)), broker(4, directory_id=other.directory_id))
    watching.pass_time(1_000)

    assert (other, 750) == (watching.views()[4].key, watching.views()[4].silent_ms)


def test_a_former_directory_is_not_live() -> None:
    """
    The broker that is heard has another directory than the image says: what is planned there is not live.
    """
    watching = Watching()
    watching.hearing.keys[4] = ReplicaKey(BrokerId(4), DirectoryId(b"n" * 16))

    assert (False, False) == (watching.views()[4].is_live, watching.views()[4].is_ready)


def test_a_broker_that_may_not_lead_is_not_ready() -> None:
    watching = Watching()
    watching.hearing.unable = {1, 3}

    assert {1: False, 2: True, 3: False, 4: True} == {
        number: view.is_ready for number, view in watching.views().items()
    }


def test_an_unregistered_broker_counts_only_if_it_carries_something() -> None:
    """
    A directory that was admitted may never have started.  If it took the place of another one, replicas are planned on
    it: peers do not say whether they hear it, so the controller's own hearing counts.
    """
    watching = Watching(image_of(*map(broker, (1, 2, 3)), broker(4, endpoints=())))
    watching.hearing.heard.discard(4)
    before = watching.views()
    watching.index._carried = {BrokerId(4): {7: None}}  # type: ignore[dict-item]
    watching.pass_time(5_000)
    after = watching.views()

    assert ({1, 2, 3}, {1, 2, 3, 4}) == (before.keys(), after.keys())
    assert (0, 5_000, False) == (after[4].heard_by, after[4].silent_ms, after[4].is_ready)
