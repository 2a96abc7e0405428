"""The lag of a share group, from DescribeShareGroupOffsets (KIP-1226)."""

import socket
from typing import Any

from tidemill.model import errors
from tidemill.wire.messages import describe_share_group_offsets, find_coordinator
from tidemill.wire.schema import Api, Message

TIMEOUT_S = 10.0


def lag_of(bootstrap: str, group: str) -> int | None:
    """Return the number of records that the group has not finished; None if the brokers do not know it now."""
    for address in bootstrap.split(","):
        host, _, port = address.rpartition(":")
        try:
            found = _ask((host, int(port)), find_coordinator.API, find_coordinator.Request(coordinator_keys=[group]))
            (coordinator,) = found.coordinators
            if coordinator.error_code:
                continue
            asked = describe_share_group_offsets.Request.Group(group_id=group, topics=None)
            request = describe_share_group_offsets.Request(groups=[asked])
            (answer,) = _ask((coordinator.host, coordinator.port), describe_share_group_offsets.API, request).groups
        except OSError:
            continue  # this broker is down
        partitions = [partition for topic in answer.topics for partition in topic.partitions]
        if answer.error_code or not partitions or any(it.error_code or it.lag < 0 for it in partitions):
            return None
        return sum(it.lag for it in partitions)
    return None


def _ask(address: tuple[str, int], api: Api, request: Message) -> Any:
    version = api.versions[-1]
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(b"".join(bytes(part) for part in api.encode_request(version, request, 1)))
        stream = connection.makefile("rb")
        frame = memoryview(stream.read(int.from_bytes(stream.read(4))))
    if not frame:
        raise ConnectionError(errors.name(errors.NETWORK_EXCEPTION))
    return api.decode_response(version, frame, api.response_body_at(version, frame))
