"""The consumer groups of a cluster and their committed offsets, for `tidemill top`.

Each broker is asked for the groups that it coordinates, with Tidemill's own client.  librdkafka's admin client would
keep asking the old coordinator after a move, and the refusal of OffsetFetch would end the process (librdkafka's issue
5040).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidemill.cli.bootstrap import no_response
from tidemill.cli.topic_admin import Partition
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import ClientError
from tidemill.model import errors
from tidemill.wire.messages import list_groups, offset_fetch

ANSWER_TIMEOUT_MS: Final = 2_000  # how long to wait for a broker that has just died
GROUPS_MAX: Final = 200  # bounds the size of responses, so only the first groups by name are shown
_PROTOCOL_TYPES: Final = ("", "consumer")  # those of consumer groups; groups without members may have none
_MANY_GROUPS: Final = 8  # earlier versions of OffsetFetch take one group
_TOPICS_BY_NAME: Final = 9  # later versions of OffsetFetch identify topics by id


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSample:
    state: str
    committed: dict[Partition, int]


class GroupReader:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        keys = ("request.timeout.ms", "default.api.timeout.ms", "socket.connection.setup.timeout.ms")
        timeouts = dict.fromkeys(keys, str(ANSWER_TIMEOUT_MS))
        self._cluster = ClusterMetadata(from_keys({"bootstrap.servers": bootstrap, **timeouts}))

    def close(self) -> None:
        self._cluster.close()

    def read(self, notes: list[str]) -> dict[str, GroupSample]:
        """
        Return the groups, ordered by name, and append sentences to `notes` that say what is missing.

        A group whose coordinator is moving has no offsets, or is missing.  Raise `Failed` if no broker responds.
        """
        try:
            self._cluster.refresh(())
        except ClientError as problem:
            raise no_response(self._bootstrap, f"groups: {problem}") from problem
        listed: dict[str, tuple[int, str]] = {}  # the broker that lists the group, and the group's state
        silent = set()
        for broker_id in self._cluster.broker_ids():
            try:
                connection = self._cluster.connection_to(broker_id)
                response = connection.request(list_groups.API, list_groups.Request())
            except ClientError:
                silent.add(broker_id)
                continue
            if response.error_code != errors.NONE:
                silent.add(broker_id)
            for it in response.groups:
                if it.protocol_type in _PROTOCOL_TYPES:
                    listed[it.group_id] = broker_id, it.group_state or "Unknown"
        names = sorted(listed)
        if len(names) > GROUPS_MAX:
            notes.append(f"there are {len(names)} groups; only the first {GROUPS_MAX} by name are read")
            del names[GROUPS_MAX:]
        committed: dict[str, dict[Partition, int]] = {}
        for broker_id in sorted({listed[name][0] for name in names}):
            try:
                connection = self._cluster.connection_to(broker_id)
                committed.update(_committed(connection, [name for name in names if listed[name][0] == broker_id]))
            except ClientError:
                silent.add(broker_id)
        if silent:
            notes.append("a broker does not respond, so the list of groups is incomplete")
        return {name: GroupSample(state=listed[name][1], committed=committed.get(name, {})) for name in names}


def _committed(connection: BrokerConnection, groups: Sequence[str]) -> Iterator[tuple[str, dict[Partition, int]]]:
    """Yield the committed offsets of groups that the broker coordinates; none for a group that has just moved."""
    version = connection.version_of(offset_fetch.API, newest=_TOPICS_BY_NAME)
    if version < _MANY_GROUPS:
        for group in groups:
            request = offset_fetch.Request(group_id=group, topics=None)
            yield group, _offsets(connection.request(offset_fetch.API, request, version=version))
        return
    request = offset_fetch.Request(groups=[offset_fetch.Request.Group(group_id=it, topics=None) for it in groups])
    for found in connection.request(offset_fetch.API, request, version=version).groups:
        yield found.group_id, _offsets(found)


def _offsets(found: Any) -> dict[Partition, int]:
    return {
        (topic.name, it.partition_index): it.committed_offset
        for topic in found.topics
        for it in topic.partitions
        if it.error_code == errors.NONE and it.committed_offset >= 0
    }
