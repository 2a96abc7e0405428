"""
ShareGroupDescribe (key 77): v1

Describes share groups and their members (KIP-932).  authorized_operations is unset (INT32_MIN), because there is no
authorizer yet.
"""

from tidemill.broker.coordinators.group_coordinator import ask_group
from tidemill.broker.request.request_context import RequestContext
from tidemill.coordinator.share_group.requests import DescribeShareGroups
from tidemill.coordinator.share_group.responses import DescribedShareGroup, ShareGroupsDescribed
from tidemill.shard.pending import Pending
from tidemill.wire.messages.share_group_describe import Request, Response

Group = Response.Group
Assignment = Group.Member.Assignment


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    names = list(dict.fromkeys(request.group_ids))
    if not names:
        return Response(groups=())
    pending: Pending[Response] = Pending()
    groups: dict[str, Group] = {}

    def answered(group_id: str, reply: ShareGroupsDescribed) -> None:
        groups[group_id] = _group(reply.groups[0])
        if len(groups) == len(names):
            pending.complete(Response(groups=[groups[name] for name in names]))

    for group_id in names:
        ask_group(
            context.broker.coordinators,
            group_id,
            DescribeShareGroups(waiter=lambda reply, name=group_id: answered(name, reply), group_ids=(group_id,)),
        )
    return pending


def _group(described: DescribedShareGroup) -> Group:
    return Group(
        error_code=described.error_code,
        error_message=described.error_message,
        group_id=described.group_id,
        group_state=described.state,
        group_epoch=described.epoch,
        assignment_epoch=described.assignment_epoch,
        assignor_name=described.assignor,
        members=[
            Group.Member(
                member_id=it.member_id,
                rack_id=it.rack,
                member_epoch=it.epoch,
                client_id=it.client_id,
                client_host=it.client_host,
                subscribed_topic_names=it.topics,
                assignment=Assignment(
                    topic_partitions=[
                        Assignment.TopicPartitions(
                            topic_id=one.topic_id, topic_name=one.name, partitions=one.partitions
                        )
                        for one in it.assignment
                    ]
                ),
            )
            for it in described.members
        ],
    )
