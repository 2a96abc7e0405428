"""Removes the state of deleted share groups from the partitions that they have read.

    coordinator: a group is deleted ─▶ ShareClose to each leader ─▶ all have answered ─▶ SharesClosed is logged
    leader:      ShareClose ─▶ CLOSE row ─▶ committed ─▶ answer

The coordinator repeats its requests until every leader has answered.  A leader that is never reached does no harm: if
the group is created again, its shares have a greater incarnation, and replace what is left of the old ones.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tidemill.broker.coordinators.coordinator_host import CoordinatorHost
from tidemill.broker.coordinators.group_coordinator import GROUPS, GroupCore
from tidemill.broker.coordinators.hosted_partition import HostedPartition
from tidemill.broker.shares.share_leaders import Outcome, PartitionKey, ShareLeaders
from tidemill.coordinator.group.requests import GroupRequest
from tidemill.coordinator.share_group.requests import SharesClosed
from tidemill.coordinator.share_group.topic_incarnations import ShareToClose
from tidemill.metadata.image import ClusterImage
from tidemill.model.clock import Clock
from tidemill.peer import share_close
from tidemill.shard.pending import Pending

AGAIN_MS: Final = 1_000  # between two attempts

CloseHere = Callable[[share_close.Request], Pending[share_close.Response]]
_Hosted = HostedPartition[GroupRequest, GroupCore]


class ShareClosings:
    def __init__(
        self,
        coordinators: CoordinatorHost,
        leaders: ShareLeaders,
        image: Callable[[], ClusterImage],
        clock: Clock,
        close_here: CloseHere,
    ) -> None:
        """`close_here` closes shares of partitions that this broker leads."""
        self._coordinators = coordinators
        self._leaders = leaders
        self._image = image
        self._clock = clock
        self._close_here = close_here
        self._asked: set[ShareToClose] = set()  # the requests for these are not all answered
        self._next_ms = 0

    def tick(self) -> None:
        """Ask the leaders to close the shares of the deleted groups that this broker coordinates."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + AGAIN_MS
        for hosted in self._coordinators.of(GROUPS).hosted():
            if hosted.is_loaded:
                for share in [*hosted.core.groups.shares_to_close()]:  # an answer at once changes the original
                    if share not in self._asked:
                        self._close(hosted, share)

    def _close(self, hosted: _Hosted, share: ShareToClose) -> None:
        def request_for(partitions: Sequence[PartitionKey]) -> share_close.Request:
            return share_close.Request(**share._asdict(), partitions=[number for _, number in partitions])

        def answered(outcomes: Sequence[Outcome]) -> None:
            self._asked.discard(share)
            if all(it.response is not None and not it.response.refused for it in outcomes):
                hosted.ask(SharesClosed(**share._asdict()), None)

        self._asked.add(share)
        topic = self._image().topic_by_id(share.topic_id)  # None if it has been deleted, and its shards with it
        numbers = range(0 if topic is None else topic.partition_count)
        partitions = [(share.topic_id, number) for number in numbers]
        self._leaders.ask(share_close.API, partitions, request_for, self._close_here).then(answered)
