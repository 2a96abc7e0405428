"""Begins shares anew at offsets that an administrator has chosen, on the leaders of their partitions.

    coordinator: the group has no members ─▶ ShareReset to each leader ─▶ the outcomes are the answer to the client
    leader:      ShareReset ─▶ no consumer holds records ─▶ OPEN row ─▶ committed ─▶ answer

The new share has the incarnation of the old one and a greater state epoch.  What the group has done with the records of
the partition is forgotten, and so are its dead records whose dead letters are not written yet.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from tidemill.broker.shares.led_share import LedShare, ShareKey
from tidemill.broker.shares.shard_proposals import ShardProposals
from tidemill.broker.shares.share_openings import shares_of
from tidemill.model import errors
from tidemill.model.errors import KafkaError
from tidemill.peer import share_reset
from tidemill.shard.partition import Partition
from tidemill.shard.pending import Pending
from tidemill.share.share_row import OpenShare

Outcome = share_reset.Response.Outcome
Asked = share_reset.Request.Partition


class ShareResets:
    def __init__(
        self,
        writable: Callable[[ShareKey], Partition],
        led: Callable[[ShareKey], LedShare | None],
        proposals: Callable[[Partition], ShardProposals | None],
        wake: Callable[[ShareKey], None],
    ) -> None:
        """
        `writable` returns a partition that this broker leads and may append to, or raises KafkaError.  `led` returns
        the leases of a share.  `proposals` returns None if this broker does not lead the partition any more.  `wake` is
        called when a share has begun anew.
        """
        self._writable = writable
        self._led = led
        self._proposals = proposals
        self._wake = wake
        self._epochs: dict[ShareKey, int] = {}  # the greatest state epoch that is proposed and not committed yet

    def reset(self, request: share_reset.Request) -> Pending[share_reset.Response]:
        """Begin shares of a group anew.  The response has an outcome for each partition."""
        pending: Pending[share_reset.Response] = Pending()
        outcomes: list[Outcome | None] = [None] * len(request.partitions)

        def ended(at: int, outcome: Outcome) -> None:
            outcomes[at] = outcome
            if None not in outcomes:
                pending.complete(share_reset.Response(outcomes=[it for it in outcomes if it is not None]))

        if not outcomes:
            pending.complete(share_reset.Response())
        for at, asked in enumerate(request.partitions):
            try:
                self._reset(request.group_id, asked, partial(ended, at))
            except KafkaError as refused:
                ended(at, Outcome(error_code=refused.error_code, error_message=refused.message))
        return pending

    def _reset(self, group: str, asked: Asked, then: Callable[[Outcome], None]) -> None:
        key = ShareKey(group, asked.topic_id, asked.partition)
        partition = self._writable(key)
        share = shares_of(partition).of_group(group)
        if share is not None and share.incarnation > asked.incarnation:
            raise KafkaError(errors.FENCED_STATE_EPOCH, "the group has begun to read the topic anew meanwhile")
        led = self._led(key)
        if led is not None and led.share is share and led.leases.held_count:
            held = led.leases.held_count
            raise KafkaError(errors.NON_EMPTY_GROUP, f"consumers hold {held} records of the partition")
        proposals = self._proposals(partition)
        if proposals is None:
            raise KafkaError(*_LOST)
        is_open = share is not None and share.incarnation == asked.incarnation
        epoch = max(share.state_epoch if share is not None and is_open else 0, self._epochs.get(key, 0)) + 1
        self._epochs[key] = epoch
        section = OpenShare(
            partition=partition.number,
            group=group,
            incarnation=asked.incarnation,
            state_epoch=epoch,
            start=max(asked.start, partition.log_start),
        )
        proposals.add(section, partial(self._ended, key, epoch, then))

    def _ended(self, key: ShareKey, epoch: int, then: Callable[[Outcome], None], is_committed: bool) -> None:
        if self._epochs.get(key) == epoch:
            del self._epochs[key]
        self._wake(key)
        then(Outcome() if is_committed else Outcome(error_code=_LOST[0], error_message=_LOST[1]))


_LOST: Final = (
    errors.NOT_LEADER_OR_FOLLOWER,
    "this broker no longer leads the partition: whether its offset was set is unknown",
)
