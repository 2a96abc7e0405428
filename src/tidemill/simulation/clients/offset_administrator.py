"""An administrator on virtual time who sets, deletes and describes the offsets of a share group without members, and
deletes the group.
"""

from collections import Counter
from typing import Any, Final

from tidemill.model import errors
from tidemill.simulation.clients.client import Address, Client, Unreachable
from tidemill.simulation.invariant_violation import InvariantViolation
from tidemill.wire.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    find_coordinator,
)
from tidemill.wire.schema import Message

FIRST_OFFSET: Final = 1_000_000  # beyond all records, so that no deletion of records moves a start
NO_START: Final = -1

# What may be answered while coordinators and leaders move: the outcome is unknown.
_LATER: Final = frozenset({
    errors.NOT_COORDINATOR,
    errors.COORDINATOR_NOT_AVAILABLE,
    errors.COORDINATOR_LOAD_IN_PROGRESS,
    errors.NOT_LEADER_OR_FOLLOWER,
    errors.LEADER_NOT_AVAILABLE,
    errors.KAFKA_STORAGE_ERROR,
})  # fmt: skip


class OffsetAdministrator:
    """
    Never sets the same offset twice, so a described start tells which request set it: the last one that was answered as
    successful, or one whose outcome is unknown.
    """

    def __init__(self, client: Client, group: str, topic: str, number: int) -> None:
        self._client = client
        self._group = group
        self._topic = topic
        self._number = number
        self._coordinator: Address | None = None
        self._next_offset = FIRST_OFFSET
        self.confirmed = NO_START  # the start according to the last request that was answered as successful
        self._unknown: set[int] = set()  # starts that a request with an unknown outcome may still set
        self.outcomes: Counter[str] = Counter()
        self.is_stopping = False
        self.has_finished = False

    async def run(self) -> None:
        """Make random requests; after `is_stopping`, set the offset a last time, without doubt, and describe it."""
        while not self.is_stopping:
            drawn = self._client.random.random()
            if drawn < 0.5:
                await self._alter()
            elif drawn < 0.6:
                await self._delete()
            elif drawn < 0.7:
                await self._delete_group()
            else:
                await self._describe()
            await self._client.back_off()
        while not await self._alter():
            await self._client.back_off()
        while not await self._describe():
            await self._client.back_off()
        self.has_finished = True

    async def _alter(self) -> bool:
        asked = alter_share_group_offsets.Request.Topic
        self._next_offset += 1
        offset = self._next_offset
        partition = asked.Partition(partition_index=self._number, start_offset=offset)
        request = alter_share_group_offsets.Request(
            group_id=self._group, topics=[asked(topic_name=self._topic, partitions=[partition])]
        )
        answer = await self._ask(request)
        codes = [] if answer is None else [it.error_code for topic in answer.responses for it in topic.partitions]
        return self._note("alter", answer, [*_whole(answer), *codes], offset)

    async def _delete(self) -> bool:
        topics = [delete_share_group_offsets.Request.Topic(topic_name=self._topic)]
        answer = await self._ask(delete_share_group_offsets.Request(group_id=self._group, topics=topics))
        codes = [] if answer is None else [it.error_code for it in answer.responses]
        if answer is not None and NO_START in {self.confirmed, *self._unknown}:
            is_missing = answer.error_code == errors.GROUP_ID_NOT_FOUND
            if is_missing or codes == [errors.UNKNOWN_TOPIC_OR_PARTITION]:
                return True  # there is nothing to delete
        return self._note("delete", answer, [*_whole(answer), *codes], NO_START)

    async def _delete_group(self) -> bool:
        answer = await self._ask(delete_groups.Request(groups_names=[self._group]))
        codes = [] if answer is None else [it.error_code for it in answer.results]
        if codes == [errors.GROUP_ID_NOT_FOUND] and NO_START in {self.confirmed, *self._unknown}:
            return True  # there is nothing to delete
        return self._note("delete group", answer, codes, NO_START)

    async def _describe(self) -> bool:
        asked = describe_share_group_offsets.Request.Group(group_id=self._group, topics=None)
        answer = await self._ask(describe_share_group_offsets.Request(groups=[asked]))
        group = None if answer is None else answer.groups[0]
        if group is None or group.error_code in _LATER:
            return False
        found = [it for topic in group.topics for it in topic.partitions if it.partition_index == self._number]
        if any(it.error_code in _LATER for it in found):
            return False
        is_unknown = group.error_code == errors.GROUP_ID_NOT_FOUND
        if not is_unknown and (group.error_code or any(it.error_code for it in found)):
            raise InvariantViolation(f"{self._client.name}: offsets are described as {group}")
        start = found[0].start_offset if found else NO_START
        if start not in {self.confirmed, *self._unknown}:
            raise InvariantViolation(
                f"{self._client.name}: the start is described as {start}; it was set to {self.confirmed}, and perhaps "
                f"to one of {sorted(self._unknown)}"
            )
        self.outcomes["described"] += 1
        return True

    def _note(self, what: str, answer: Any, codes: list[int], start: int) -> bool:
        """Note the outcome of a request, and return whether it is known to have succeeded."""
        failed = [code for code in codes if code]
        if any(code not in _LATER for code in failed):
            raise InvariantViolation(f"{self._client.name}: {what} is answered {[*map(errors.name, failed)]}")
        is_done = answer is not None and not failed
        self.outcomes[f"{what} {'done' if is_done else 'unknown'}"] += 1
        if is_done:
            self.confirmed = start
        else:
            self._unknown.add(start)
        return is_done

    async def _ask(self, request: Message) -> Any:
        """Return the coordinator's answer; None if it cannot be reached."""
        try:
            if self._coordinator is None:
                located = await self._client.ask_once(find_coordinator.Request(coordinator_keys=[self._group]))
                (found,) = located.coordinators
                if found.error_code:
                    return None
                self._coordinator = (found.host, found.port)
            answer = await (await self._client.connection(self._coordinator)).ask(request)
        except Unreachable:
            self._coordinator = None
            return None
        if any(code in _LATER for code in _whole(answer)):
            self._coordinator = None
        return answer


def _whole(answer: Any) -> list[int]:
    """Return the error code of the group in an answer."""
    match answer:
        case None:
            return []
        case describe_share_group_offsets.Response():
            return [answer.groups[0].error_code]
        case delete_groups.Response():
            return [answer.results[0].error_code]
    return [answer.error_code]
