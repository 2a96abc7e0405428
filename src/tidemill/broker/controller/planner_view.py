"""PlannerView: what the present controller knows about brokers and shards, in the form that the planner reads.

    image ──────────────┐
    heartbeats ─────────┼─▶ `refresh`, before each computation ─▶ View; changed shards ─▶ ShardIndex
    reported figures ───┘

A view stays as it is while a computation runs, which takes many turns of the event loop.  So reports that arrive
meanwhile wait for the next `refresh`.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from tidemill.broker.controller.broker_watch import BrokerWatch, MeasuredBroker
from tidemill.metadata.image import ClusterImage, Shard
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.rebalance.broker_set import BrokerSet
from tidemill.rebalance.policy import Policy
from tidemill.rebalance.shard_index import ShardIndex
from tidemill.rebalance.slices import Slices, Work
from tidemill.rebalance.view import ShardView, View


class Figures(Protocol):
    """The part of `ReportedLoad` that this module uses."""

    @property
    def brokers(self) -> Mapping[BrokerId, MeasuredBroker]: ...

    @property
    def shards(self) -> Mapping[ShardId, ShardView]: ...

    def take_changed(self) -> AbstractSet[ShardId]:
        """Return the shards whose figures have changed since the last call."""
        ...


class PlannerView:
    """Belongs to one period of a controller: the next controller, or this broker later on, begins with another one."""

    def __init__(self, watch: BrokerWatch, figures: Figures, began_at_ms: int) -> None:
        self.watch = watch
        self.index = ShardIndex(began_at_ms)
        self.newest = View(brokers={}, shards={})  # as of the last `refresh`
        self._figures = figures
        self._shards: dict[ShardId, ShardView] = {}
        self._seen: Mapping[ShardId, Shard] | None = None  # the shards of the image of the last `refresh`

    def refresh(self, image: ClusterImage, policy: Policy, now_ms: int) -> Slices[View]:
        """Return a view of now, and have the index count what has changed.  Runs like every computation on the view."""
        work = Work()
        before, after = self._seen, image.shards
        if before is not None and before is not after:  # at first, the index counts all shards anyway
            for shard_id, shard in after.items():
                if before.get(shard_id) is not shard:
                    self.index.changed((shard_id,))
                if work.fills_slice():
                    yield
            for shard_id in before:
                if shard_id not in after:
                    self.index.changed((shard_id,))
                    self._shards.pop(shard_id, None)
                if work.fills_slice():
                    yield
        changed = self._figures.take_changed()
        for shard_id in changed if before is not None else [*self._figures.shards]:
            figures = self._figures.shards.get(shard_id)
            is_deleted = shard_id not in after and shard_id < image.next_shard_id  # otherwise it is newer than `image`
            if figures is None or is_deleted:
                self._shards.pop(shard_id, None)
            else:
                self._shards[shard_id] = figures
            self.index.changed((shard_id,))
            if work.fills_slice():
                yield
        self._seen = after
        brokers = self.watch.views(image, self._figures.brokers, self.index, policy, now_ms)
        self.newest = View(brokers=brokers, shards=self._shards)
        yield from self.index.catch_up(image, self.newest, BrokerSet(image, self.newest).racks, work, now_ms)
        return self.newest
