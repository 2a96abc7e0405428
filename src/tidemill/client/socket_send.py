"""Sends the parts of a request without joining large parts, because record batches can be megabytes in size."""

import os
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from tidemill.wire.schema import Part

_JOINED_BYTES_MAX: Final = 64 << 10  # joining fewer bytes costs less than passing their parts to the kernel
_PARTS_MAX: Final = os.sysconf("SC_IOV_MAX")  # per call of sendmsg; 1024 on Linux


def send_parts(connected: socket.socket, parts: Sequence[Part]) -> None:
    """Send all parts in order.  Raise OSError, for example if the peer accepts no bytes within the socket's timeout."""
    if isinstance(connected, ssl.SSLSocket) or sum(map(len, parts)) <= _JOINED_BYTES_MAX:
        connected.sendall(b"".join(parts))  # TLS copies the bytes in any case, and has no call for several parts
        return
    left: deque[memoryview] = deque(memoryview(part) for part in parts)
    while left:
        sent = connected.sendmsg(islice(left, _PARTS_MAX))
        while left and sent >= len(left[0]):
            sent -= len(left.popleft())
        if sent:
            left[0] = left[0][sent:]
