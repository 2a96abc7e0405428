"""The share of a redrive, on the leaders of a dead-letter topic's partitions.

In a group whose name begins with `__redrive`, an operator's reject sends a letter back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tidemill.cli.redrive import SentBack
from tidemill.cli.redrive_plan import OffsetRun
from tidemill.client.cluster_metadata import ClusterMetadata, LeaderUnknown
from tidemill.client.failures import BrokerUnreachable, ClientError, TopicRecreated
from tidemill.client.offset_lookup import LEADER_MOVED
from tidemill.model import errors
from tidemill.model.dead_letters import REDRIVE_GROUP
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.peer import share_describe, share_resolve
from tidemill.wire.schema import Api, Message

_REJECT: Final = 3
_VERSION: Final = 0  # ApiVersions does not list the two requests
_RETRIED: Final = LEADER_MOVED | {errors.COORDINATOR_LOAD_IN_PROGRESS, errors.COORDINATOR_NOT_AVAILABLE}


class LeaderShare:
    """Implements `redrive.RedriveShare`.  Its methods raise ClientError."""

    def __init__(
        self, cluster: ClusterMetadata, topic: str, topic_id: TopicId, partitions: Sequence[int], to: str | None
    ) -> None:
        """`topic_id` is that of the topic whose offsets are sent back: a topic created again has other letters."""
        self._cluster = cluster
        self._topic = topic
        self._topic_id = topic_id
        self._partitions = partitions
        self._group = REDRIVE_GROUP if to is None else f"{REDRIVE_GROUP}.{to}"

    def send_back(self, partition: int, runs: Sequence[OffsetRun]) -> SentBack:
        request = share_resolve.Request(
            group_id=self._group,
            topic_id=self._topic_id,
            partition=partition,
            member_id="",
            batches=[
                share_resolve.Request.Batch(first_offset=run.first, last_offset=run.last, acknowledge_types=[_REJECT])
                for run in runs
            ],
        )

        def outcome(response: share_resolve.Response) -> share_resolve.Response:
            return response

        answer = self._ask(partition, share_resolve.API, request, outcome)
        return SentBack(sent=answer.resolved, before=answer.finished, undecided=answer.held)

    def waiting(self) -> Mapping[int, int]:
        return {partition: self._archiving(partition) for partition in self._partitions}

    def _archiving(self, partition: int) -> int:
        asked = share_describe.Request.Partition(topic_id=self._topic_id, partition=partition)
        request = share_describe.Request(group_id=self._group, partitions=[asked])

        def share(response: share_describe.Response) -> share_describe.Response.Share:
            return response.shares[0]

        described = self._ask(partition, share_describe.API, request, share)
        return int(described.archiving)

    def _ask(self, partition: int, api: Api, request: Message, outcome: Callable[[Any], Any]) -> Any:
        """
        Send a request to the partition's leader, again after a failure that may pass.

        `outcome` returns the part of the response that has the error code and the result.  Both requests may be
        repeated: if a leader has executed one whose response was lost, the next answer counts its letters as sent back
        before.
        """
        at = f"{self._topic}-{partition}"
        back_off = self._cluster.back_off()
        while True:
            failure: ClientError
            try:
                leader = self._cluster.leader(TopicPartition(self._topic, partition))
                connection = self._cluster.connection_to(leader.broker_id)
                response = connection.request(api, request, version=_VERSION)
                found = response if response.error_code else outcome(response)
                if found.error_code == errors.NONE:
                    return found
                reason = getattr(found, "error_message", None) or errors.name(found.error_code)
                failure = ClientError(f"the leader of {at} refuses the request: {reason}")
                if found.error_code not in _RETRIED:
                    raise failure
            except (BrokerUnreachable, LeaderUnknown) as error:
                failure = error
            back_off.pause(failure)
            self._cluster.refresh({self._topic})
            if self._cluster.topic_id(self._topic) not in (None, self._topic_id):
                raise TopicRecreated(self._topic, "it was deleted and created again since it was read")
