"""Reports of the load of a broker and of shards: examples, and some drawn at random."""

from hypothesis import strategies as st

from tidemill.model.broker_id import BrokerId, DirectoryId, ReplicaKey
from tidemill.model.shard import ShardId
from tidemill.peer.load import BrokerLoad, Load, ShardLoad

ONE, TWO, THREE, FOUR = (ReplicaKey(BrokerId(it), DirectoryId(it.to_bytes(16))) for it in (1, 2, 3, 400))
BROKER = BrokerLoad(disk_total=1 << 40, disk_used=5, cpu=600, bytes_in=7, bytes_out=8)
SHARD = ShardLoad(
    shard_id=ShardId(4),
    term=17,
    size=1 << 33,
    is_measured=True,
    bytes_in=1 << 20,
    cpu=250,
    voters=(ONE, TWO, THREE),
    learners=(FOUR,),
    in_sync=frozenset((ONE.broker_id, THREE.broker_id)),
    behind=(1 << 32,),
)
REPORT = Load(broker=BROKER, shards=(SHARD,))

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
KEYS = st.builds(ReplicaKey, U32.map(BrokerId), st.binary(min_size=16, max_size=16).map(DirectoryId))
BROKER_LOADS = st.builds(BrokerLoad, disk_total=U64, disk_used=U64, cpu=U32, bytes_in=U64, bytes_out=U64)


@st.composite
def shard_loads(draw: st.DrawFn) -> ShardLoad:
    members = draw(st.lists(KEYS, max_size=6, unique_by=lambda key: key.broker_id))
    voter_count = draw(st.integers(0, len(members)))
    voters, learners = tuple(members[:voter_count]), tuple(members[voter_count:])
    return ShardLoad(
        shard_id=ShardId(draw(U64)),
        term=draw(U64),
        size=draw(U64),
        is_measured=draw(st.booleans()),
        bytes_in=draw(U64),
        cpu=draw(U32),
        voters=voters,
        learners=learners,
        in_sync=frozenset(voter.broker_id for voter in voters if draw(st.booleans())),
        behind=tuple(draw(U64) for _ in learners),
    )


LOADS = st.builds(Load, broker=st.none() | BROKER_LOADS, shards=st.lists(shard_loads(), max_size=3).map(tuple))
