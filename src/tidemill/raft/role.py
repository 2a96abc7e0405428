"""The four roles of a Raft replica; `raft/replica.py` shows the transitions."""

from enum import StrEnum


class Role(StrEnum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"
