"""A small host for tests: one coordinator, its log, a clock that the test moves, and all replies."""

from typing import Any

from tidemill.coordinator.group.group_settings import GroupSettings
from tidemill.coordinator.group.groups import Groups
from tidemill.coordinator.group.requests import (
    CommitOffsets,
    DeleteGroups,
    DescribeGroups,
    FetchOffsets,
    Heartbeat,
    Join,
    Leave,
    LeavingMember,
    OffsetToCommit,
    Sync,
    TopicPartitionId,
)
from tidemill.coordinator.group.responses import DescribedGroup, Joined
from tidemill.coordinator.result import Key, LogRecord, Result
from tidemill.coordinator.share_group.cluster_view import ClusterView, TopicView
from tidemill.coordinator.timestamps import Timestamps
from tidemill.model.share_group_config import ShareGroupConfig
from tidemill.model.topic import TopicId

BEGIN_MS = 1_700_000_000_000
FLIGHTS_ID = TopicId(bytes(15) + b"\x0f")
TIDES_ID = TopicId(bytes(15) + b"\x07")
TOPIC_IDS = {"flights": FLIGHTS_ID, "tides": TIDES_ID}
RANGE = (("range", b"\x00\x03\x00\x00\x00\x01\x00\x07flights\xff\xff\xff\xff"),)


class CountingEntropy:
    def __init__(self) -> None:
        self.drawn = 0

    def random_bytes(self, count: int) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(count, "big")


class World:
    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.entropy = CountingEntropy()
        self.now_ms = BEGIN_MS
        self.log: list[LogRecord] = []
        self.topic_ids = dict(TOPIC_IDS)
        self.partition_counts = {"flights": 4, "tides": 2}
        self.share_config = ShareGroupConfig()
        self.answers: dict[object, list[Any]] = {}
        self.timers: dict[Key, int] = {}
        self.asked = 0
        self.restart()

    def restart(self) -> None:
        """Start a new coordinator from the log alone, as another broker does when it becomes the coordinator."""
        self.timers.clear()
        self.groups = self.replayed()
        self.execute(self.groups.loaded(self.timestamps))

    @property
    def timestamps(self) -> Timestamps:
        return Timestamps(self.now_ms, self.now_ms, self.now_ms)

    def replayed(self) -> Groups:
        groups = Groups(self.settings, self.entropy, self.cluster)
        for key, value in self.log:
            groups.replay(key, value)
        return groups

    @property
    def cluster(self) -> ClusterView:
        names = self.topic_ids
        return ClusterView(
            topic=lambda name: TopicView(names[name], name, self.partition_counts[name]) if name in names else None,
            topic_by_id=lambda topic_id: next(
                (TopicView(it, name, self.partition_counts[name]) for name, it in names.items() if it == topic_id), None
            ),
            share_group_config=lambda _: self.share_config,
        )

    def execute(self, result: Result) -> None:
        for key, value in result.records:
            self.log.append(LogRecord(key, value))
            self.groups.replay(key, value)
        for waiter, response in result.replies:
            self.answers.setdefault(waiter, []).append(response)
        for key, at_ms in result.deadlines:
            if at_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at_ms
        self.groups.check_invariants()

    def wait(self, ms: int) -> None:
        """Advance the clock, firing each deadline when its time comes."""
        until_ms = self.now_ms + ms
        while self.timers:
            key = min(self.timers, key=self.timers.__getitem__)
            if self.timers[key] > until_ms:
                break
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            self.execute(self.groups.expire(key, self.timestamps))
        self.now_ms = until_ms

    def ask(self, request: Any) -> Any:
        """Return the response, or None if the request is parked."""
        self.execute(self.groups.decide(request, self.timestamps))
        return self.answer(getattr(request, "waiter", None))

    def answer(self, waiter: object) -> Any:
        answers = self.answers.get(waiter)
        if answers is None:
            return None
        assert len(answers) == 1, "each request gets one reply"
        return answers[0]

    def waiter(self) -> str:
        self.asked += 1
        return f"request {self.asked}"

    # The requests, with defaults for fields that most tests do not set.

    def joining(self, group_id: str = "g", **fields: Any) -> Join:
        wanted = {
            "waiter": self.waiter(),
            "group_id": group_id,
            "client_id": "app",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": RANGE,
            "must_know_member_id": False,
        }
        return Join(**{**wanted, **fields})

    def join(self, **fields: Any) -> Any:
        """Return the response or, if the request is parked, its waiter: a text such as `request 3`."""
        request = self.joining(**fields)
        return self.ask(request) or request.waiter

    def sync(self, member: Joined, *, group_id: str = "g", **fields: Any) -> Any:
        wanted = {
            "waiter": self.waiter(),
            "group_id": group_id,
            "generation": member.generation,
            "member_id": member.member_id,
        }
        request = Sync(**{**wanted, **fields})
        return self.ask(request) or request.waiter

    def heartbeat(self, member: Joined, *, group_id: str = "g", **fields: Any) -> int:
        wanted = {
            "waiter": self.waiter(),
            "group_id": group_id,
            "generation": member.generation,
            "member_id": member.member_id,
        }
        return int(self.ask(Heartbeat(**{**wanted, **fields})).error_code)

    def leave(self, *members: LeavingMember, group_id: str = "g") -> list[int]:
        left = self.ask(Leave(waiter=self.waiter(), group_id=group_id, members=members))
        return [member.error_code for member in left.members]

    def commit(self, group_id: str = "g", *, topic: str = "flights", offset: int = 42, **fields: Any) -> int:
        one = OffsetToCommit(
            topic=topic,
            topic_id=self.topic_ids[topic],
            partition=fields.pop("partition", 0),
            offset=offset,
            metadata=fields.pop("metadata", ""),
            leader_epoch=fields.pop("leader_epoch", -1),
        )
        request = CommitOffsets(waiter=self.waiter(), group_id=group_id, offsets=(one,), **fields)
        return int(self.ask(request).error_codes[0])

    def fetch(self, group_id: str = "g", *, topic: str = "flights", partition: int = 0) -> int:
        asked = TopicPartitionId(topic=topic, topic_id=self.topic_ids[topic], partition=partition)
        found = self.ask(FetchOffsets(waiter=self.waiter(), group_id=group_id, partitions=(asked,)))
        return int(found.offsets[0].offset)

    def fetch_all(self, group_id: str = "g") -> dict[tuple[str, int], int]:
        found = self.ask(FetchOffsets(waiter=self.waiter(), group_id=group_id, partitions=None))
        return {(offset.topic, offset.partition): offset.offset for offset in found.offsets}

    def describe(self, group_id: str = "g") -> DescribedGroup:
        described: DescribedGroup = self.ask(DescribeGroups(waiter=self.waiter(), group_ids=(group_id,))).groups[0]
        return described

    def state(self, group_id: str = "g") -> str:
        return self.describe(group_id).state

    def delete(self, *group_ids: str) -> tuple[int, ...]:
        codes: tuple[int, ...] = self.ask(DeleteGroups(waiter=self.waiter(), group_ids=group_ids)).error_codes
        return codes

    # Initial states from which many tests start.

    def stable(self, count: int = 1, **fields: Any) -> list[Joined]:
        """Let `count` members join.  The first one leads, and each gets its index as an assignment of one byte."""
        joins = [self.join(**fields) for _ in range(count)]
        self.wait(self.settings.initial_rebalance_delay_ms * min(count, 2))
        return self.assigned([self.answer(join) for join in joins])

    def static(self, *instance_ids: str) -> list[Joined]:
        joins = [self.join(instance_id=instance_id) for instance_id in instance_ids]
        self.wait(self.settings.initial_rebalance_delay_ms * min(len(joins), 2))
        return self.assigned([self.answer(join) for join in joins])

    def assigned(self, members: list[Joined]) -> list[Joined]:
        """Complete the generation: all members send SyncGroup, and the leader's request contains the assignments."""
        assignments = tuple((member.member_id, bytes([index])) for index, member in enumerate(members))
        for member in members:
            leads = member.member_id == member.leader
            self.sync(member, assignments=assignments if leads else ())
        assert self.state() == "Stable"
        return members


def leaving(member: Joined) -> LeavingMember:
    return LeavingMember(member_id=member.member_id)
