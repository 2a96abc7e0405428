"""The parts of a request arrive complete and in order, however many bytes the kernel accepts per call."""

import socket
import threading

import pytest

from tidemill.client.socket_send import send_parts


@pytest.mark.parametrize(
    "sizes",
    [
        [],
        [10, 20],
        [100, 3_000_000, 0, 50, 2_000_000, 0],  # more than a socket's buffer
        [90] * 3_000,  # more parts than one system call accepts
    ],
)
def test_all_parts_arrive_in_order(sizes):
    parts = [memoryview(bytes([number % 251]) * size) for number, size in enumerate(sizes)]
    received = bytearray()
    sender, receiver = socket.socketpair()

    def receive() -> None:
        while some := receiver.recv(1 << 20):
            received.extend(some)

    receiving = threading.Thread(target=receive)
    with receiver:
        with sender:
            sender.settimeout(30)
            receiving.start()
            send_parts(sender, parts)
        receiving.join(30)

    assert b"".join(parts) == received


def test_a_peer_that_takes_nothing_is_given_up():
    sender, receiver = socket.socketpair()
    with sender, receiver:
        sender.settimeout(0.05)
        with pytest.raises(TimeoutError):
            send_parts(sender, [bytes(8 << 20), bytes(8 << 20)])
