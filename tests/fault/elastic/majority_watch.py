"""Watches the members of all shards of a topic in the background: a shard never has fewer members than it needs.

The members are those that the leader of each shard has in force.  A replica *counts* if its process runs and it lacks
only a little of what is committed, as far as that is known.  At any time, the members that count must be a majority of
all members.
"""

import threading
from collections.abc import Collection
from types import TracebackType
from typing import Any

from tests.fault.cluster_processes import ClusterProcesses
from tests.fault.elastic.elastic_scene import REPLICAS
from tidemill.client.broker_http import NoResponse, Refused, ask

PACE_SECONDS = 0.1
LAG_ROWS_MAX = 200  # a few seconds of the load: the replicas share two cores with everything else
BROKEN_MAX = 20  # messages to keep


class MajorityWatch:
    """A context manager: `broken` has a message for each violation."""

    def __init__(self, cluster: ClusterProcesses, topic: str, *, has_whole_plans: bool) -> None:
        """
        With `has_whole_plans`, the replicas that count are a majority of the *planned* ones at any time, too.  That
        holds unless a second broker fails while the substitute of the first one is copied.
        """
        self._cluster = cluster
        self._topic = topic
        self._has_whole_plans = has_whole_plans
        self.broken: list[str] = []
        self.seen = 0  # looks at a shard
        self._is_ending = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="majority watch", daemon=True)

    def __enter__(self) -> "MajorityWatch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._is_ending.set()
        self._thread.join()
        if self._problem is not None and kind is None:
            raise self._problem

    def _run(self) -> None:
        try:
            while not self._is_ending.wait(PACE_SECONDS):
                running = self._cluster.running()
                for number in running:
                    try:
                        answer = ask(f"127.0.0.1:{self._cluster.http_ports[number]}", "/v1/shards", topic=self._topic)
                    except (NoResponse, Refused):  # the broker is down, starts, or knows the topic no more
                        continue
                    for shard in answer["shards"]:
                        if shard["led_here"] is not None:
                            self.seen += 1
                            self._look(number, shard, running)
        except BaseException as problem:  # re-raised by the thread of the test, which waits for this one
            self._problem = problem

    def _look(self, number: int, shard: dict[str, Any], running: Collection[int]) -> None:
        led, planned = shard["led_here"], shard["replicas"]
        voters = led["voters"]
        # On a busy machine, a leader does not hear a broker that runs for a while, so it is not asked who is live.
        near = [it["broker_id"] for it in led["members"] if it["broker_id"] in voters and _is_near(it, led)]
        counting = [it for it in near if it in running]
        found = f"shard {shard['shard_id']}, led by {number}: voters {voters}, planned {planned}, {counting} count"
        if len(voters) < REPLICAS:
            self._tell(f"fewer than {REPLICAS} voters: {found}")
        if 2 * len(counting) <= len(voters):
            self._tell(f"no majority of the voters: {found}")
        if self._has_whole_plans and 2 * len({*counting} & {*planned}) <= len(planned):
            self._tell(f"no majority of the plan: {found}")

    def _tell(self, what: str) -> None:
        if len(self.broken) < BROKEN_MAX:
            self.broken.append(what)


def _is_near(member: dict[str, Any], led: dict[str, Any]) -> bool:
    match_index = member["match_index"]  # None: a new leader has not heard of it yet what it has
    return match_index is None or led["commit_index"] - match_index <= LAG_ROWS_MAX
