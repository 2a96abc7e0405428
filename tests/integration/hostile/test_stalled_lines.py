"""Bodies of lines that begin and then stall, in a crowd: the memory that they take is bounded."""

import contextlib
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.hostile.attacked_broker import MIB, AttackedBroker, produce_request
from tests.integration.hostile.http_attack import (
    SERVED_S_MAX,
    HttpAttacker,
    assert_others_are_served,
    post,
    statuses_of,
)
from tidemill.runtime.open_files_limit import raise_open_files_limit
from tidemill.storage.store import StoreOptions

GROWN_MAX = 64 * MIB  # through one attack, at its peak
CROWD = 1_000


@pytest.fixture(scope="module")
def attacker(running: AttackedBroker) -> HttpAttacker:
    """
    Return an attacker of a broker that has imported what it needs, and whose cache of records is full: that has a bound
    of its own.  The tests leave their topics, because the cache would forget the records of a topic that is deleted.
    """
    raise_open_files_limit()
    found = HttpAttacker(running)
    topic = running.topic()
    assert 200 == found.status(post(f"/v1/topics/{topic}/records", b'{"value": "1"}', kind=b"x-ndjson"))
    with running.connect() as producer:
        for _ in range(StoreOptions().cache_bytes_max // MIB + 1):
            producer.ask(produce_request(topic, bytes(MIB - 1_000)), 9)
    return found


@pytest.mark.parametrize(
    ("size", "line_bytes"), [(128 << 10, None), (64 << 10, 100), (128 << 10, 1_000), (128 << 10, 30 << 10)]
)
def test_bodies_of_lines_that_stall_are_bounded(
    broker: AttackedBroker, attacker: HttpAttacker, size: int, line_bytes: int | None
) -> None:
    """
    1,000 clients send the beginning of a body of lines at once, whose last line has no end, and then nothing.  Those
    whose beginning of a line has no room get 503; the lines before are written, and other clients are served.
    """
    topic = broker.topic()
    line = b'{"value": "%s"}\n' % (b"a" * ((line_bytes or size) - 14))
    whole = line * (size // len(line)) if line_bytes else b""
    begun = whole + line[: size - len(whole)].rstrip(b"}\n")
    request = post(f"/v1/topics/{topic}/records", begun, kind=b"x-ndjson", size=1 << 30)
    attacker.wait_until_alone()
    before = attacker.restart_peak()

    with attacker.crowd(CROWD) as clients:
        with ThreadPoolExecutor(50) as threads:
            list(threads.map(_send, clients, [request] * CROWD))
        statuses = Counter(statuses_of(clients, SERVED_S_MAX))
        assert_others_are_served(broker, attacker, broker.topic())
    attacker.wait_until_alone()
    grown = attacker.peak() - before

    assert {503, None} >= {*statuses}
    assert grown < GROWN_MAX, f"the broker has grown by {grown / MIB:.0f} MiB"
    broker.no_mistake()


def _send(client: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the broker closes connections that it has no room for
        client.sendall(data)
