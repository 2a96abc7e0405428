"""
PeerDispatcher: passes messages from peers, and changes in the state of their connections, to the parts of this broker.
"""

from tidemill.broker.broker import Broker
from tidemill.broker.connection.peer_requests import PeerRequests
from tidemill.broker.peers.peers import Respond
from tidemill.model.broker_id import ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.peer.link import Link
from tidemill.raft.messages import Message


class PeerDispatcher:
    """The handler of everything that peers send; implements `PeerHandler`."""

    def __init__(self, broker: Broker, requests: PeerRequests) -> None:
        self._broker = broker
        self._requests = requests

    def receive(self, sender: ReplicaKey, shard_id: ShardId, message: Message) -> None:
        self._broker.shard_table.receive(sender, shard_id, message)

    def answer(self, link: Link, data: memoryview, respond: Respond) -> None:
        self._requests.answer(link, data, respond)

    def peer_reconnected(self, voter: ReplicaKey) -> None:
        self._broker.shard_table.peer_reconnected(voter)

    def peer_restarted(self, voter: ReplicaKey) -> None:
        self._broker.shard_table.peer_restarted(voter)

    def peer_lost(self) -> None:
        self._broker.tick_shards()
