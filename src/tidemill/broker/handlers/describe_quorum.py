"""
DescribeQuorum (key 55): v0-2

Returns the voters and learners of the metadata log with their progress.  Every broker forwards the request to the
controller.

A request may use either name of the metadata topic: `__cluster_metadata`, which Kafka's tools use, or Tidemill's own
name.  Offsets in the response are log indexes of the metadata shard, so entries without records are counted, too.

v1  last_fetch_timestamp, last_caught_up_timestamp (KIP-836)
v2  nodes with their peer endpoints, directory ids, error_message (KIP-853)
"""

from typing import Final

from tidemill.broker.controller.metadata_quorum_status import QuorumMember
from tidemill.broker.request.request_context import RequestContext
from tidemill.model import errors
from tidemill.model.shard import METADATA_SHARD
from tidemill.model.topic import METADATA_TOPIC
from tidemill.wire.messages.describe_quorum import Replica, Request, Response

NAMES: Final = ("__cluster_metadata", METADATA_TOPIC)

PartitionResponse = Response.Topic.Partition


def handle(request: Request, context: RequestContext) -> Response:
    topics = [
        Response.Topic(
            topic_name=topic.topic_name,
            partitions=[_partition(context, topic.topic_name, it.partition_index) for it in topic.partitions],
        )
        for topic in request.topics
    ]
    return Response(error_code=errors.NONE, topics=topics, nodes=_nodes(context))


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return Response(
        error_code=error_code,
        error_message="the controller is unknown at the moment, or did not answer; try again",
        topics=(),
    )


def _partition(context: RequestContext, topic: str, number: int) -> PartitionResponse:
    if topic not in NAMES or number != 0:
        return PartitionResponse(
            partition_index=number,
            error_code=errors.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"{topic}-{number} is not the metadata log: ask for {NAMES[0]}-0",
            leader_id=-1,
            leader_epoch=-1,
            high_watermark=-1,
            current_voters=(),
            observers=(),
        )
    broker = context.broker
    replica = broker.shard_table.shards[METADATA_SHARD].replica
    membership = replica.membership
    return PartitionResponse(
        partition_index=number,
        error_code=errors.NONE,
        leader_id=broker.broker_id,
        leader_epoch=replica.term,
        high_watermark=replica.commit_index + 1,
        current_voters=[_replica(it) for it in broker.quorum.members(replica, membership.voters)],
        observers=[_replica(it) for it in broker.quorum.members(replica, membership.learners)],
    )


def _replica(member: QuorumMember) -> Replica:
    return Replica(
        replica_id=member.key.broker_id,
        replica_directory_id=member.key.directory_id,
        log_end_offset=member.end_index,
        last_fetch_timestamp=member.heard_at,
        last_caught_up_timestamp=member.caught_up_at,
    )


def _nodes(context: RequestContext) -> list[Response.Node]:
    broker = context.broker
    voters = broker.shard_table.shards[METADATA_SHARD].replica.voters
    known = [broker.image.brokers[voter.broker_id] for voter in voters if voter.broker_id in broker.image.brokers]
    return [
        Response.Node(
            node_id=it.broker_id,
            listeners=[
                Response.Node.Listener(name=end.name, host=end.host, port=end.port)
                for end in (it.peer_endpoint,)
                if end is not None
            ],
        )
        for it in known
    ]
