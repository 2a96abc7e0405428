"""Reason: why the replicas of a shard are where they are, as `ReplicasRecord` stores it and `rebalance` decides it."""

from enum import IntEnum


class Reason(IntEnum):
    """Why replicas were planned.  A lower number is more urgent, and a later reason never undoes an earlier one."""

    PLACED = 0  # when the shard was created, or by a version that stored no reason
    REPLACE = 1  # a broker is gone, or came back before its replacement voted
    DISK = 2  # a disk was too full
    DRAIN = 3  # an operator empties a broker
    RACK = 4  # two replicas were on one rack, while another rack had none
    USER = 5  # a user chose the brokers
    LEADER = 6  # the leader's broker was busy; only the order of the replicas changed
    COUNT = 7  # the brokers carried unequal numbers of replicas
    BYTES = 8  # the brokers carried unequal numbers of bytes
