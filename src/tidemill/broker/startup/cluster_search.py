"""
ClusterSearch: finds the controller for a starting broker, which sends a Join request to each broker that it reaches.

    Join, with directory and broker id ─▶ any broker ─▶ the controller ─▶ addresses of all brokers: more connections
                  ▲                                          │        └──▶ refused: another directory has the id
                  └──────────── no controller: retry ◀───────┘

Each response also names the addresses of the brokers that are heard, even if there is no controller.  So brokers that
have all moved to other addresses find each other, although the metadata has the old ones.

A broker that has just been admitted knows only the brokers to which it sent the request, but a different one may lead
the metadata shard.  A broker whose id now belongs to another directory is no longer a replica, and learns this only
from the response.  For any other broker, the request changes nothing.
"""

from typing import Final

from tidemill.broker.broker import Broker
from tidemill.broker.peers.unanswered import Unanswered
from tidemill.broker.startup.joining import NOT_NOW, TELL_MS, refusal
from tidemill.model.broker_id import ReplicaKey, broker_list
from tidemill.model.shard import METADATA_SHARD
from tidemill.peer import join
from tidemill.storage.data_directory import DirectoryProblem


class ClusterSearch:
    def __init__(self, broker: Broker) -> None:
        identity = broker.identity
        self._broker = broker
        self._request: Final = join.Request(
            directory_id=identity.directory_id,
            broker_id=identity.broker_id,
            was_admitted=True,
            level=broker.newest_level,
        )
        self._asked: set[ReplicaKey] = set()
        self._refusal: DirectoryProblem | None = None
        self._began_at = self._told_at = broker.clock.monotonic_ms()

    def check(self) -> None:
        """
        Send a Join request to every live peer with no Join in flight.  Called repeatedly.  Raises DirectoryProblem if
        the cluster has refused this directory.
        """
        if self._refusal is not None:
            raise self._refusal
        broker = self._broker
        replica = broker.shard_table.shards[METADATA_SHARD].replica
        if replica.leader is None:
            for voter in sorted(broker.cluster.peers.alive() - self._asked):
                self._ask(voter)
        now = broker.clock.monotonic_ms()
        if now - self._told_at >= TELL_MS:
            self._told_at = now
            problem = self._problem(replica.leader, replica.voters)
            broker.events.waiting("waiting for the cluster", now - self._began_at, problem=problem)

    def _ask(self, voter: ReplicaKey) -> None:
        def answered(outcome: join.Response | Unanswered) -> None:
            self._asked.discard(voter)
            if isinstance(outcome, Unanswered):
                return
            if outcome.error_code and outcome.error_code not in NOT_NOW:
                self._refusal = refusal(outcome, self._broker.identity.broker_id)
            cluster = self._broker.cluster
            cluster.heard_of = [*dict.fromkeys((*cluster.heard_of, *outcome.peers, *outcome.live_peers))]
            cluster.reach()

        self._asked.add(voter)
        self._broker.cluster.peers.ask(voter, join.API, self._request, answered)

    def _problem(self, leader: ReplicaKey | None, voters: tuple[ReplicaKey, ...]) -> str:
        if leader is not None:
            return f"broker {leader.broker_id} leads the metadata and has not answered yet"
        cluster = self._broker.cluster
        heard = [voter for voter in voters if voter == cluster.me or cluster.is_alive(voter)]
        return (
            f"the metadata has no known leader; its voters are brokers {broker_list(voters)}, of which this broker "
            f"hears {broker_list(heard) or 'none'}"
            if voters
            else "no leader of the metadata was found yet"
        )
