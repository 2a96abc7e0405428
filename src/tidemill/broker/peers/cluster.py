"""The cluster as this broker sees it: live peers, leaders of shards, and the transport of Raft messages."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, Protocol

from tidemill.broker.machine import Machine
from tidemill.broker.peers.leader_table import Leader, LeaderTable
from tidemill.broker.peers.leader_waiters import LeaderWaiters
from tidemill.broker.peers.leaving_replicas import leaving
from tidemill.broker.peers.peers import Peers
from tidemill.broker.peers.release_limit import ReleaseLimit
from tidemill.broker.peers.replica_lag import Lagging, ReplicaLag
from tidemill.broker.peers.silent_brokers import SilentBrokers
from tidemill.metadata.feature_levels import ELASTIC_CLUSTER
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.image import Shard as PlannedShard
from tidemill.metadata.metadata_records import PEER_ENDPOINT, Endpoint
from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.clock import Clock
from tidemill.model.shard import METADATA_SHARD, ShardId
from tidemill.peer.frame import DRAINING
from tidemill.peer.hello import Hello
from tidemill.peer.load import Load
from tidemill.raft.messages import Message
from tidemill.raft.quorum import has_majority
from tidemill.shard.shard import Shard
from tidemill.storage.data_directory import Identity

HEARD_MS: Final = 1_000  # four ticks; clients are referred only to leaders whose last heartbeat is at most this old
LISTED_MS: Final = 9_000
"""
A broker is listed to clients for this long after its last heartbeat, as with Kafka's `broker.session.timeout.ms`.

A client may ignore a response that both lacks a broker and names a new leader for that broker's partitions: librdkafka
2.16 does so for up to a second.
"""


class ClusterOwner(Protocol):
    """The part of the broker that `Cluster` uses."""

    @property
    def image(self) -> ClusterImage: ...

    @property
    def shards(self) -> dict[ShardId, Shard]:
        """The shards that have a replica on this broker, by id."""
        ...

    @property
    def is_syncing(self) -> bool:
        """Whether the journal is making rows durable.  If it is not, this broker can neither vote nor acknowledge."""
        ...

    @property
    def flags(self) -> int:
        """The flags in this broker's heartbeats (see `peer.frame`)."""
        ...

    def serving_changed(self, shard: Shard) -> None:
        """Called when this broker has started or stopped serving `shard` as its leader."""
        ...

    def membership_changed(self, shard: Shard) -> None:
        """Called when this broker has put another membership of `shard` in force as its leader."""
        ...

    def load_heard(self, voter: ReplicaKey, load: Load) -> None:
        """Called when a peer reports what it and the shards that it leads use."""
        ...


class Cluster:
    """
    Implements `RaftTransport` and `ShardObserver` for this broker's shards, `PeersOwner` for the links to other
    brokers, and the views of `LeaderWaiters`, `ReplicaLag` and `SilentBrokers`.
    """

    def __init__(
        self,
        identity: Identity,
        machine: Machine,
        owner: ClusterOwner,
        *,
        newest_level: int,
        stall_tolerant_clock: Clock,
    ) -> None:
        self._owner = owner
        self.newest_level = newest_level  # the highest feature level that this broker supports
        self.address = ""  # host:port of the peer listener; empty until it is bound
        self.join: Sequence[str] = ()  # addresses to connect to, in addition to those in the image
        self.heard_of: Sequence[str] = ()  # further addresses, possibly outdated; used until the image is complete
        self.leaders = LeaderTable(identity.voter)
        self.clocks = ReleaseLimit(machine.clock, machine.clock_drift_max)
        self._lag = ReplicaLag(self, stall_tolerant_clock)
        self._silent = SilentBrokers(self, stall_tolerant_clock)
        self.peers = Peers(self, self.leaders, clock=stall_tolerant_clock, call_soon=machine.turns.call_soon)
        self.watchers: dict[Callable[[], None], None] = {}  # called when the image or the leader table has changed
        self.leader_waiters = LeaderWaiters(self, machine)
        self._identity = identity
        self._incarnation = int.from_bytes(machine.entropy.random_bytes(8)) >> 1
        self._events = machine.events

    @property
    def me(self) -> ReplicaKey:
        return self._identity.voter

    def hello(self) -> Hello:
        identity = self._identity
        return Hello(
            cluster_id=identity.cluster_id, voter=identity.voter, incarnation=self._incarnation, address=self.address
        )

    @property
    def is_syncing(self) -> bool:
        return self._owner.is_syncing

    @property
    def flags(self) -> int:
        return self._owner.flags

    def lagging(self) -> tuple[Lagging, ...]:
        """Return the out-of-sync replicas of the shards that this broker leads."""
        return self._lag.check()

    @property
    def out_of_sync(self) -> frozenset[Lagging]:
        """The result of the last call to `lagging`."""
        return self._lag.lagging

    def voters_in_sync(self, shard_id: ShardId) -> frozenset[BrokerId]:
        """Return the voters in force of a shard that this broker leads which were in sync at the last tick."""
        return self._lag.in_sync(shard_id)

    def take_changed_in_sync(self) -> list[ShardId]:
        """Return the shards for which `voters_in_sync` has changed since the last call."""
        return self._lag.take_changed()

    @property
    def unheard(self) -> tuple[BrokerId, ...]:
        """The registered brokers that this broker did not hear at the last tick."""
        return self._silent.unheard

    @property
    def image(self) -> ClusterImage:
        return self._owner.image

    @property
    def shards(self) -> dict[ShardId, Shard]:
        return self._owner.shards

    def alive_peers(self) -> frozenset[ReplicaKey]:
        return self.peers.alive()

    def is_stranger(self, voter: ReplicaKey) -> bool:
        """Return whether the metadata has no broker with this id and directory.  Before there is any, none is one."""
        known = self.image.brokers.get(voter.broker_id)
        return bool(self.image.cluster_id) and (known is None or known.voter != voter)

    def clock_heard(self, voter: ReplicaKey, wall_ms: int) -> None:
        """Note the wall clock of another broker, from a heartbeat that has just arrived."""
        self.clocks.heard(voter, wall_ms)

    def load_heard(self, voter: ReplicaKey, load: Load) -> None:
        self._owner.load_heard(voter, load)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        if before.brokers is not image.brokers:
            self.clocks.keep_only([broker.voter for broker in image.brokers.values()])
            self.reach()
        if before.topics is not image.topics:
            gone = [topic for topic in before.topics.values() if topic.topic_id not in image.topics_by_id]
            for shard_id in chain.from_iterable(topic.shard_ids for topic in gone):
                self.leaders.deleted(shard_id)
        self.leaders_changed()

    def reach(self) -> None:
        """Keep connections to every other broker in the image, and to the addresses in `join` and `heard_of`."""
        if self.peers.links is None:
            return
        addresses = dict.fromkeys((*self.join, *self.heard_of))
        for broker in self.image.brokers.values():
            if broker.broker_id != self._identity.broker_id:
                addresses |= dict.fromkeys(peer_addresses(broker.endpoints))
        addresses.pop(self.address, None)
        self.peers.links.reach(list(addresses))

    def addresses_of_others(self, broker_id: BrokerId) -> list[str]:
        """Return the peer addresses of the registered brokers other than `broker_id`, as host:port."""
        others = [broker for broker in self.image.brokers.values() if broker.broker_id != broker_id]
        return [address for broker in others for address in peer_addresses(broker.endpoints)]

    def live_addresses(self, asking: DirectoryId) -> list[str]:
        """
        Return the addresses at which the brokers that this broker hears are reached now, as they say themselves, except
        for the broker with the directory `asking`.
        """
        others = sorted(voter for voter in self.peers.alive() if voter.directory_id != asking)
        return [address for voter in others if (address := self.peers.address(voter))]

    def tick(self) -> None:
        """Find out which brokers are silent, and send heartbeats, which say it.  Called at each tick."""
        self._silent.tick()
        self.peers.tick()

    def heard_by(self, broker_id: BrokerId) -> int:
        """Return how many live brokers, this one included, hear a registered broker; it does not count itself."""
        return self._silent.heard_by(broker_id)

    def heard(self) -> frozenset[BrokerId]:
        """
        Return the live brokers, and the registered ones that only others hear.  A broker whose directory is replaced,
        or that is removed, must not be one of them: this broker may have a bad network of its own.
        """
        live, image = self.live(), self.image
        if image.feature_level < ELASTIC_CLUSTER:
            return live  # a peer of an older version does not say which brokers it does not hear
        others = (it.broker_id for it in image.brokers.values() if it.is_registered and self.heard_by(it.broker_id))
        return live.union(others)

    def is_silent(self, broker_id: BrokerId) -> bool:
        """Return whether neither this broker nor any live peer hears a registered broker."""
        return self._silent.is_silent(broker_id)

    def silent_ms(self, broker_id: BrokerId) -> int | None:
        """Return for how long a broker has been silent, in time that this broker ran; None if it is not silent."""
        return self._silent.silent_ms(broker_id)

    def unheard_by_peers(self) -> dict[BrokerId, frozenset[BrokerId]]:
        """Return the registered brokers that each live peer does not hear, by its last heartbeat."""
        return {voter.broker_id: self.peers.unheard_by(voter) for voter in self._live_peers()}

    def stop(self) -> None:
        self.leader_waiters.stop()

    # Methods of the protocol `RaftTransport`.

    def is_alive(self, voter: ReplicaKey) -> bool:
        return self.peers.is_alive(voter)

    def may_lead(self, voter: ReplicaKey) -> bool:
        return self.peers.may_lead(voter)

    def eligible_leaders(self) -> frozenset[BrokerId]:
        """Return the live brokers, including this one, that are not draining their leadership."""
        able = frozenset(voter.broker_id for voter in self.peers.alive() if self.peers.may_lead(voter))
        return able if self._owner.flags & DRAINING else able | {self._identity.broker_id}

    def live(self) -> frozenset[BrokerId]:
        """Return this broker and the live peers that the image has."""
        return frozenset((self._identity.broker_id, *(voter.broker_id for voter in self._live_peers())))

    def supported_levels(self) -> dict[BrokerId, int]:
        """Return the highest feature level that this broker and each live peer supports."""
        levels = {voter.broker_id: self.peers.level(voter) for voter in self._live_peers()}
        return levels | {self._identity.broker_id: self.newest_level}

    def _live_peers(self) -> list[ReplicaKey]:
        """
        Return the live peers that the image has.  The process of a broker that was removed, or whose directory was
        replaced, may still run and send heartbeats, and its own image is outdated.
        """
        brokers = self.image.brokers
        return [
            voter
            for voter in self.peers.alive()
            if (known := brokers.get(voter.broker_id)) is not None and known.voter == voter
        ]

    def release_limit(self, voters: Sequence[ReplicaKey]) -> int | None:
        return self.clocks.limit(voters, self.me)

    def send(self, shard_id: ShardId, to: ReplicaKey, message: Message) -> None:
        self.peers.send(shard_id, to, message)

    def serving_changed(self, shard: Shard) -> None:
        """Report that this broker has started or stopped serving `shard` as its leader."""
        self.leaders.leads(shard.shard_id, shard.replica.term if shard.is_serving else 0)
        self._lag.serving_changed(shard)
        self.peers.tell_leaders()
        self._owner.serving_changed(shard)
        self.leaders_changed()

    def damage_changed(self, shard: Shard) -> None:
        """Log that the files of `shard` are damaged or have been repaired."""
        problem = shard.log.damage
        if problem is None:
            self._events.event("shard repaired", shard=shard.shard_id)
            return
        self._events.error("shard damaged", shard=shard.shard_id, problem=problem, then=shard.damage.outlook)

    def membership_changed(self, shard: Shard) -> None:
        self._owner.membership_changed(shard)

    def leaders_changed(self) -> None:
        """Notify all waiters and watchers: the image or the leader of a shard has changed."""
        self.leader_waiters.check()
        for watcher in [*self.watchers]:
            watcher()

    # Methods that find the leaders of shards and partitions.

    def leader_of(self, topic: Topic, partition: int) -> Leader | None:
        """Return the partition's leader and its confirmed epoch as one pair; None while no live leader is known."""
        shard_id = topic.shard_of(partition)
        return None if shard_id is None else self.leader(shard_id)

    def leader(self, shard_id: ShardId) -> Leader | None:
        found = self.leaders.leader(shard_id)
        return None if found is None or not self._is_heard(found.broker_id) else found

    def _is_heard(self, broker_id: BrokerId) -> bool:
        """
        Return whether the broker is this one, or has sent a heartbeat within `HEARD_MS`.

        A client that is referred to a leader that has just become silent waits until its requests time out, so it is
        better to report no leader.
        """
        if broker_id == self._identity.broker_id:
            return True
        known = self.image.brokers.get(broker_id)
        age_ms = None if known is None else self.peers.heartbeat_age_ms(known.voter)
        return age_ms is not None and age_ms <= HEARD_MS

    def is_up(self, broker_id: BrokerId) -> bool:
        """Return whether the broker is this one or a live peer.  Other brokers cannot lead."""
        if broker_id == self._identity.broker_id:
            return True
        known = self.image.brokers.get(broker_id)
        return known is not None and self.peers.is_alive(known.voter)

    def is_listed(self, broker_id: BrokerId) -> bool:
        """Return whether responses to clients list the broker: it is up, or was up within the last `LISTED_MS`."""
        known = self.image.brokers.get(broker_id)
        return self.is_up(broker_id) or (known is not None and self.peers.was_alive(known.voter, LISTED_MS))

    @property
    def has_quorum_contact(self) -> bool:
        """
        Whether this broker hears a majority of the voters of the metadata shard.

        A broker that hears no majority is isolated, and cannot know which other brokers are down.
        """
        shard = self.shards.get(METADATA_SHARD)
        if shard is None:
            return False
        voters = shard.replica.voters
        return has_majority(voters, [voter for voter in voters if self.is_up(voter.broker_id)])

    def in_sync(self, planned: PlannedShard) -> list[BrokerId]:
        """
        Return the replicas that are in sync according to the shard's leader (`broker/peers/replica_lag`); an empty list
        if no leader is known.
        """
        shard_id = planned.shard_id
        leader = self.leaders.leader_key(shard_id)
        if leader is None:
            return []
        lagging = self._lag.lagging if leader == self.me else self.peers.lagging(leader)
        return [
            voter.broker_id
            for voter in planned.replicas
            if self.has(voter)
            and (voter == leader or (lagging is not None and (shard_id, voter.broker_id) not in lagging))
        ]

    def leaving(self, planned: PlannedShard) -> list[BrokerId]:
        """
        Return the replicas that are to go and still count, as far as this broker knows: the leader, if it is not
        planned, and those that were planned before and are in sync (`broker/peers/leaving_replicas`).
        """
        shard_id = planned.shard_id
        leader = self.leaders.leader_key(shard_id)
        if leader is None:
            return []
        is_planned = any(voter.broker_id == leader.broker_id for voter in planned.replicas)
        found = [] if is_planned else [leader.broker_id]
        lagging = self._lag.lagging if leader == self.me else self.peers.lagging(leader)
        if planned.previous and lagging:
            replicas = leaving(planned, lambda broker_id: (shard_id, broker_id) in lagging)
            found += [it.broker_id for it in replicas if self.has(it) and it.broker_id not in found]
        return found

    def has(self, voter: ReplicaKey) -> bool:
        """Return whether `voter` is this broker or a live peer, with the same directory id."""
        return voter == self._identity.voter or self.peers.is_alive(voter)

    def when_led(self, topics: Sequence[str], callback: Callable[[], None]) -> None:
        """
        Call `callback` when the topics are in the image and their shards have leaders, or after a time limit at the
        latest.
        """
        self.leader_waiters.wait_for_topics(topics, callback)

    def has_known_leader(self, shard_id: ShardId) -> bool:
        if self.leaders.leader(shard_id) is not None:
            return True
        shard = self.shards.get(shard_id)
        # A shard that cannot be repaired never gets a leader, so requests must not wait for one.
        return shard is not None and shard.log.damage is not None and not shard.damage.is_repairable

    def is_leaderless(self, shard_id: ShardId) -> bool:
        return shard_id in self.image.shards and self.leader(shard_id) is None

    def leaderless(self) -> list[ShardId]:
        """Return every shard in the cluster for which `is_leaderless` is true."""
        heard = frozenset(filter(self._is_heard, self.image.brokers))
        leaders = ((shard_id, self.leaders.leader(shard_id)) for shard_id in self.image.shards)
        return [shard_id for shard_id, leader in leaders if leader is None or leader.broker_id not in heard]

    def reported_leader(self, shard_id: ShardId) -> BrokerId | None:
        """Return the broker that reports leading the shard; None if there is none, or if it is not up."""
        leader = self.leaders.leader(shard_id)
        return None if leader is None or not self.is_up(leader.broker_id) else leader.broker_id

    def controller(self) -> ReplicaKey | None:
        """Return the leader of the metadata shard that this broker's replica follows; None if it follows no leader."""
        shard = self.shards.get(METADATA_SHARD)
        return None if shard is None else shard.replica.leader

    @property
    def controller_term(self) -> int:
        """The newest term of the metadata shard that this broker knows; `controller` leads in it."""
        shard = self.shards.get(METADATA_SHARD)
        return 0 if shard is None else shard.replica.term


def peer_addresses(endpoints: Sequence[Endpoint]) -> list[str]:
    """Return the peer addresses of a broker, as host:port."""
    return [f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints if endpoint.name == PEER_ENDPOINT]
