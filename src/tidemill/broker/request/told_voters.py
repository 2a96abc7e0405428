"""Waits until leaders have told a new controller the voters of their shards.

Before that, a move that has ended long ago looks like one that is under way.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidemill.broker.broker import Broker
from tidemill.metadata.partition_reassignments import reassigning
from tidemill.model.shard import ShardId

REPORTS_MS: Final = 3_000  # leaders report to a new controller within a second; clients wait for much longer
POLL_S: Final = 0.1


def when_told(
    broker: Broker, shard_ids: Iterable[ShardId], then: Callable[[], None], *, also_leaderless: bool = False
) -> None:
    """
    Call `then` once the leaders of these shards have told the voters in force, as far as that matters; after
    `REPORTS_MS`, or if this broker is not the controller any more, in any case.  Shards without a leader are waited for
    only on demand: they may stay so.
    """
    until_ms = broker.clock.monotonic_ms() + REPORTS_MS

    def check(untold: Sequence[ShardId]) -> None:
        untold = [it for it in untold if _is_awaited(it, broker, also_leaderless=also_leaderless)]
        if untold and broker.controller.leads and broker.clock.monotonic_ms() < until_ms:
            broker.machine.call_later(POLL_S, lambda: check(untold))
        else:
            then()

    check([*shard_ids])


def _is_awaited(shard_id: ShardId, broker: Broker, *, also_leaderless: bool) -> bool:
    shard = broker.image.shards.get(shard_id)
    if shard is None or broker.reported_load.voters(shard_id) is not None or reassigning(shard, None) is None:
        return False
    return also_leaderless or broker.cluster.leaders.leader(shard_id) is not None
