"""The acknowledgements in one ShareFetch or ShareAcknowledge request."""

from collections.abc import Sequence
from functools import partial

from tidemill.broker.shares.led_share import ShareKey
from tidemill.broker.shares.share_host import ShareHost
from tidemill.model import errors
from tidemill.model.topic import TopicId
from tidemill.shard.pending import Pending
from tidemill.share.acknowledgement import AcknowledgementBatch
from tidemill.share.share_session import ShareSession
from tidemill.wire.messages import share_acknowledge, share_fetch

AcknowledgedTopic = share_fetch.Request.Topic | share_acknowledge.Request.Topic


class ShareAcknowledgements(Pending[None]):
    """Completes when every acknowledgement is committed or refused."""

    __slots__ = ("_left", "outcomes")

    def __init__(
        self, host: ShareHost, session: ShareSession, topics: Sequence[AcknowledgedTopic], *, may_renew: bool
    ) -> None:
        super().__init__()
        self.outcomes: dict[ShareKey, tuple[int, str | None]] = {}  # error code and message of each partition
        batches = _batches(session.group, topics)
        self._left = len(batches)
        for key, acknowledged in batches.items():
            self.outcomes[key] = errors.NONE, None
            host.acknowledge(
                key,
                session.member,
                acknowledged,
                may_renew=may_renew,
                then=partial(self._known, key),
            )
        if not batches:
            self.complete(None)

    def _known(self, key: ShareKey, code: int, message: str | None) -> None:
        self.outcomes[key] = code, message
        self._left -= 1
        if not self._left:
            self.complete(None)


def has_acknowledgements(topics: Sequence[AcknowledgedTopic]) -> bool:
    return any(partition.acknowledgement_batches for topic in topics for partition in topic.partitions)


def _batches(group: str, topics: Sequence[AcknowledgedTopic]) -> dict[ShareKey, list[AcknowledgementBatch]]:
    found: dict[tuple[TopicId, int], list[AcknowledgementBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.acknowledgement_batches:
                found.setdefault((topic.topic_id, partition.partition_index), []).extend(
                    AcknowledgementBatch(it.first_offset, it.last_offset + 1, it.acknowledge_types)
                    for it in partition.acknowledgement_batches
                )
    return {ShareKey(group, *key): batches for key, batches in found.items()}
