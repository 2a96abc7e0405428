"""The share of a redrive, on the leaders of a dead-letter topic's partitions.

In a group whose name begins with `__redrive`, an operator's reject sends a letter back.
"""

from collections.abc import Mapping, Sequence

from tidemill.cli.redrive import SentBack
from tidemill.cli.redrive_plan import OffsetRun
from tidemill.client.share_client import OPERATOR, ShareClient
from tidemill.model.dead_letters import REDRIVE_GROUP
from tidemill.model.partition import TopicPartition
from tidemill.model.topic import TopicId
from tidemill.share.acknowledgement import Acknowledgement


class LeaderShare:
    """Implements `redrive.RedriveShare`.  Its methods raise ClientError."""

    def __init__(self, client: ShareClient, topic: str, topic_id: TopicId | None, to: str | None) -> None:
        """`topic_id` is that of the topic whose offsets are sent back: a topic created again has other letters."""
        self._client = client
        self._topic = topic
        self._topic_id = topic_id
        self._group = REDRIVE_GROUP if to is None else f"{REDRIVE_GROUP}.{to}"

    def send_back(self, partition: int, runs: Sequence[OffsetRun], *, is_trial: bool = False) -> SentBack:
        answer = self._client.resolve(
            TopicPartition(self._topic, partition),
            self._group,
            OPERATOR,
            [(run.first, run.last, Acknowledgement.REJECT) for run in runs],
            topic_id=self._topic_id,
            is_trial=is_trial,
        )
        return SentBack(sent=answer.resolved, before=answer.finished, undecided=answer.held)

    def waiting(self) -> Mapping[int, int]:
        described = self._client.describe(self._group, self._topic)
        return {state.partition.partition: state.archiving for state in described}
