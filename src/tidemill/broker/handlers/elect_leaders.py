"""
ElectLeaders (key 43): v0-2

Moves leadership to the preferred leaders by asking the current leaders to transfer it.  Every broker forwards the
request to the controller, which plans the transfers.  The response is sent when every preferred leader has reported to
the controller that it leads, or after timeout_ms.

Unclean elections never change anything.  A partition with a leader needs no election.  For a partition without a
leader, Kafka elects any live replica; Tidemill answers ELIGIBLE_LEADERS_NOT_AVAILABLE, because a leader that was not
elected by a majority could lack acknowledged records.

v1  election_type (KIP-460)
"""

from collections.abc import Sequence
from typing import Final

from tidemill.broker.leadership.leadership_transfers import Move
from tidemill.broker.request.request_context import RequestContext
from tidemill.metadata.leadership import UNCLEAN, Election, elect, election_type_problem
from tidemill.metadata.result import Problem
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.shard import ShardId
from tidemill.shard.pending import Pending
from tidemill.wire.messages.elect_leaders import Request, Response

REFUSED: Final = "the preferred leader is not up, or lags too far behind; try again when it has caught up"
TIMED_OUT: Final = "the preferred leader does not lead yet"


class _Awaited(Pending[Response]):
    """Completes when every leadership transfer has ended or been refused, or when the client's timeout expires."""

    __slots__ = ("_context", "_elections", "_moves", "_problems", "_timeout_ms")

    def __init__(
        self, context: RequestContext, elections: Sequence[Election], moves: Sequence[Move], timeout_ms: int
    ) -> None:
        super().__init__()
        self._context = context
        self._elections = elections
        self._moves: dict[ShardId, BrokerId] = dict(moves)  # transfers that are not known to have ended
        self._problems: dict[ShardId, Problem] = {}
        self._timeout_ms = max(timeout_ms, 0)

    def begin(self) -> None:
        broker = self._context.broker
        broker.cluster.watchers[self._check] = None
        broker.deadlines.add(self, self._timeout_ms)
        broker.leadership_transfers.anywhere([*self._moves.items()], self._refused)
        self._check()

    def _refused(self, shard_ids: Sequence[ShardId]) -> None:
        for shard_id in shard_ids:
            if self._moves.pop(shard_id, None) is not None:
                self._problems[shard_id] = Problem(errors.PREFERRED_LEADER_NOT_AVAILABLE, REFUSED)
        self._check()

    def _check(self) -> None:
        """Remove the transfers whose target now leads.  Called when the leader table may have changed."""
        cluster = self._context.broker.cluster
        for shard_id, to in [*self._moves.items()]:
            if cluster.reported_leader(shard_id) == to:
                del self._moves[shard_id]
        if not self._moves:
            self._complete_if_done()

    def expire(self) -> None:
        for shard_id in self._moves:
            self._problems[shard_id] = Problem(errors.REQUEST_TIMED_OUT, TIMED_OUT)
        self._complete_if_done()

    def _complete_if_done(self) -> None:
        broker = self._context.broker
        broker.cluster.watchers.pop(self._check, None)
        broker.deadlines.remove(self, self._timeout_ms)
        if not self.is_done:
            self.complete(_response([(it, it.problem or self._problem(it)) for it in self._elections]))

    def _problem(self, election: Election) -> Problem | None:
        shard = self._context.broker.image.shard_of(election.topic, election.partition)
        return None if shard is None else self._problems.get(shard.shard_id)


def handle(request: Request, context: RequestContext) -> Response | Pending[Response]:
    problem = election_type_problem(request.election_type)
    if problem is not None:
        return _refused(request, problem)
    broker = context.broker
    leaders: dict[ShardId, BrokerId] = {}
    for shard_id in broker.image.shards:
        leader = broker.cluster.reported_leader(shard_id)
        if leader is not None:
            leaders[shard_id] = leader
    asked = request.topic_partitions
    wanted = None if asked is None else [(topic.topic, topic.partitions) for topic in asked]
    is_unclean = request.election_type == UNCLEAN
    moves, elections = elect(broker.image, leaders, broker.cluster.live(), wanted, is_unclean=is_unclean)
    if not moves:
        return _response([(election, election.problem) for election in elections])
    awaited = _Awaited(context, elections, moves, request.timeout_ms)
    awaited.begin()
    return awaited


def refused(request: Request, error_code: int) -> Response:
    """Return a response that rejects the entire request with `error_code`."""
    return _refused(
        request, Problem(error_code, "the controller is unknown at the moment, or did not answer; try again")
    )


def _refused(request: Request, problem: Problem) -> Response:
    elections = [
        (Election(topic.topic, number), problem)
        for topic in request.topic_partitions or ()
        for number in topic.partitions
    ]
    response = _response(elections)
    response.error_code = problem.error_code
    return response


def _response(elections: Sequence[tuple[Election, Problem | None]]) -> Response:
    topics: dict[str, list[Response.Topic.Partition]] = {}
    for election, problem in elections:
        topics.setdefault(election.topic, []).append(
            Response.Topic.Partition(
                partition_id=election.partition,
                error_code=errors.NONE if problem is None else problem.error_code,
                error_message=None if problem is None else problem.message,
            )
        )
    return Response(
        replica_election_results=[
            Response.Topic(topic=topic, partition_result=results) for topic, results in topics.items()
        ]
    )
