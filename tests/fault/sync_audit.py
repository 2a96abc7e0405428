"""Checks that each acknowledgement comes in the required order: journal write, sync, response.

The write to the journal contains the value.  A successful sync of that file follows, and then the response on the
request's connection.  A write with RWF_DSYNC is its own sync.  The order is that of the lines in strace's output: the
sync must begin after the write has ended, and the response after the sync has ended.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.fault.strace_transcript import Call

SIZE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Request:
    """One Produce request of the audit, sent from `client_port`, with a unique value."""

    value: bytes
    correlation_id: int
    client_port: int


@dataclass(frozen=True, slots=True)
class Proof:
    """The three calls for one request, found in the required order."""

    request: Request
    write: Call
    sync: Call
    answer: Call


@dataclass(frozen=True, slots=True)
class Breach:
    request: Request
    what: str


def audit(requests: Sequence[Request], calls: Sequence[Call], *, file_name: str = "") -> list[Proof | Breach]:
    """Return a proof or a breach for each request.  `file_name` is a substring of the paths of the journal files."""
    writes = [call for call in calls if call.is_write and call.target.startswith("/") and file_name in call.target]
    syncs = [call for call in calls if call.is_sync and call.result == 0]
    return [_verdict(request, writes, syncs, calls) for request in requests]


def _verdict(request: Request, writes: Sequence[Call], syncs: Sequence[Call], calls: Sequence[Call]) -> Proof | Breach:
    answer = _answer(request, calls)
    if answer is None:
        return Breach(request, "no response was seen")
    holding = [call for call in writes if request.value in call.data and call.result == len(call.data)]
    if not holding:
        return Breach(request, "no complete write of its value to the journal was seen")
    if all(write.ended >= answer.began for write in holding):
        return Breach(request, "the response left before the write of its value had ended")
    for write in holding:
        if write.is_durable and write.ended < answer.began:
            return Proof(request, write, write, answer)
        for sync in syncs:
            if sync.target == write.target and write.ended < sync.began and sync.ended < answer.began:
                return Proof(request, write, sync, answer)
    return Breach(request, f"the response left before {holding[0].target} was synced")


def _answer(request: Request, calls: Sequence[Call]) -> Call | None:
    """
    Return the write that contains the first byte of the response.  A write may contain several responses, or only a
    part of one.
    """
    buffered, began_in = bytearray(), dict[int, Call]()
    consumed = 0
    for call in calls:
        if not (call.is_write and call.is_on_connection and _peer_port(call.target) == request.client_port):
            continue
        if call.result < 0:
            continue
        began_in[consumed + len(buffered)] = call
        buffered += call.data[: call.result]
        for position, correlation_id in _take_responses(buffered):
            if correlation_id == request.correlation_id:
                start = max(place for place in began_in if place <= consumed + position)
                return began_in[start]
        whole = _whole_bytes(buffered)
        consumed += whole
        del buffered[:whole]
    return None


def _take_responses(buffered: bytearray) -> Iterator[tuple[int, int]]:
    position = 0
    while len(buffered) - position >= 8:
        size = SIZE.unpack_from(buffered, position)[0]
        if len(buffered) - position - 4 < size:
            return
        yield position, SIZE.unpack_from(buffered, position + 4)[0]
        position += 4 + size


def _whole_bytes(buffered: bytearray) -> int:
    position = 0
    while len(buffered) - position >= 4:
        size = SIZE.unpack_from(buffered, position)[0]
        if len(buffered) - position - 4 < size:
            break
        position += 4 + size
    return position


def _peer_port(target: str) -> int:
    """Return the client's port from a target such as "TCP:[127.0.0.1:9092->127.0.0.1:51234]", or 0 for a listener."""
    _, arrow, peer = target.partition("->")
    return int(peer.rstrip("]").rpartition(":")[2]) if arrow else 0
