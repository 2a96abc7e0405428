"""Attacks on the HTTP listener: each is refused or bounded, and the broker serves others meanwhile."""

import contextlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.hostile.attacked_broker import (
    MIB,
    AttackedBroker,
    list_offsets_request,
    produce_request,
    raw_produce_request,
)
from tests.integration.hostile.http_attack import (
    HOST,
    SERVED_S_MAX,
    HttpAttacker,
    assert_others_are_served,
    chunked,
    get,
    post,
    status_of,
    statuses_of,
)
from tidemill.app.connection_pace import HEAD_S_MAX
from tidemill.batches.builder import RecordTuple, build_batch
from tidemill.batches.compression import Codec
from tidemill.http.admission import CONNECTIONS_MAX, HEAD_BYTES_MAX, RESERVED
from tidemill.http.v1.budgets import BYTES_MAX, WAITS_MAX
from tidemill.http.v1.calls import BODY_BYTES_MAX
from tidemill.http.v1.record_schema import DECOMPRESSED_BYTES_MAX
from tidemill.model import errors
from tidemill.runtime.open_files_limit import raise_open_files_limit
from tidemill.wire.messages import produce

GROWN_MAX = 64 * MIB  # through one attack, at its peak, and through all of them
QUIET_S_MAX = 20  # within which an idle broker returns freed memory to the system
CROWD = 1_000
LARGE_BYTES = DECOMPRESSED_BYTES_MAX - 100  # about the largest value that can be read
CLOSE = b"Connection: close\r\n"
RELEASED_S_MAX = 90.0  # for hundreds of records


@pytest.fixture(scope="module")
def attacker(running: AttackedBroker) -> Iterator[HttpAttacker]:
    """Yield an attacker of a broker that has imported everything.  Check at the end how far its memory has grown."""
    raise_open_files_limit()
    found = HttpAttacker(running)
    topic = running.topic()
    for request in (
        get("/health/ready"),
        get("/metrics"),
        get("/"),
        get("/openapi.json"),
        get(f"/v1/topics/{topic}/partitions/0/records"),
        post(f"/v1/topics/{topic}/records", b'{"records": [{"value": "1"}]}'),
        get(f"/v1/topics/{topic}/partitions/0/records/0/value"),
        get(f"/v1/topics/{topic}/stream?from=earliest"),
        get(f"/sandglass/topics/{topic}/0"),
        post(f"/v1/queues/{topic}/{topic}/receive", b'{"consumer": "c"}'),
    ):
        assert 200 == found.status(request)
    before = found.resident()
    yield found
    until = time.monotonic() + QUIET_S_MAX
    while found.resident() - before >= GROWN_MAX and time.monotonic() < until:
        time.sleep(0.1)
    grown = found.resident() - before
    assert grown < GROWN_MAX, f"the broker has grown by {grown / MIB:.0f} MiB"


@pytest.fixture
def topic(broker: AttackedBroker, attacker: HttpAttacker) -> Iterator[str]:
    """Yield a topic.  At the end, the attack may neither have made the broker log an error nor grow too far."""
    attacker.wait_until_alone()
    broker.new_lines()
    before = attacker.restart_peak()
    yield broker.topic()
    broker.no_mistake()
    grown = attacker.peak() - before
    assert grown < GROWN_MAX, f"the broker has grown by {grown / MIB:.0f} MiB"


def test_hostile_heads_are_refused(topic: str, attacker: HttpAttacker) -> None:
    """
    What is no HTTP/1.1 request, or has too large a head, is refused.
    """
    topics, large = "/v1/topics", b"a" * 200_000
    expected = {
        get(topics): 200,
        b"GET /" + large: 431,
        get("/" + "a" * HEAD_BYTES_MAX): 431,
        get(topics, b"X: " + large + b"\r\n"): 431,
        get(topics, b"X: " + large): 431,
        get(topics, b"X: 1\r\n" * 101): 431,
        get(topics, b"X: a\r\n" + b" b\r\n" * 10_000): 431,
        get(topics, b"X: a\0b\r\n"): 400,
        get(topics, b"X : a\r\n"): 400,
        get(topics, HOST): 400,
        get("/v1/\0"): 400,
        b"GET /v1/topics/\xff HTTP/1.1\r\n" + HOST + b"\r\n": 400,
        b"GET /v1/topics HTTP/1.1\r\n\r\n": 400,
        b"GET /v1/topics\r\n\r\n": 400,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
        get("/v1/topics/%00%ff"): 404,
        get(topics, b"X: \xff\xfe\r\n"): 200,
        get(topics, b"Origin: http://[::1\r\n"): 403,
        get(topics, b"Connection: Upgrade\r\nUpgrade: h2c\r\n"): 200,
        get("http://localhost/v1/topics"): 404,
        b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n": 404,
        get(topics, method=b"A" * 10_000): 405,
        get(topics + "?" + "a=b&" * 3_000): 400,
        get(topics + "?limit=" + "9" * 10_000): 400,
        get("/v1/shards?" + "a=b&" * 3_000): 400,
        get(f"{topics}/{topic}/stream", b"Last-Event-ID: " + b"9" * 19 + b":" + b"9" * 19 + b"\r\n"): 400,
        get(f"{topics}/{topic}/stream", b"Last-Event-ID: \xb2:1\r\n"): 400,
    }

    found = {request: attacker.status(request) for request in expected}

    assert [] == [(request[:60], status) for request, status in found.items() if expected[request] != status]


def test_hostile_bodies_are_refused(topic: str, attacker: HttpAttacker) -> None:
    """
    Bodies that are too large, nested too deeply, compressed, badly encoded or badly divided are refused.
    """
    path, deep = f"/v1/topics/{topic}/records", b"[" * (BODY_BYTES_MAX - 100)
    nines = b"9" * 100_000
    expected = {
        post(path, b'{"records": [{"value": "1"}]}'): 200,
        post(path, b"", size=10**18): 413,
        post(path, b"", b"Expect: 100-continue\r\n", size=10**18): 413,
        post(path, b"").replace(b"Length: 0", b"Length: -1"): 400,
        post(path, b"{}", b"Content-Length: 3\r\n"): 400,
        post(path, b"\x1f\x8b\x08\x00", b"Content-Encoding: gzip\r\n"): 415,
        post(path, b"", b"Transfer-Encoding: gzip, chunked\r\n").replace(b"Content-Length: 0\r\n", b""): 501,
        chunked(path, b"zz\r\n"): 400,
        chunked(path, b"1;" + b"a" * 100_000): 431,
        chunked(path, b"100001\r\n" + b" " * 0x100001): 413,
        post(path, deep): 400,
        post(path, b'{"records": [{"value": {"json": ' + deep): 400,
        post(path, b'{"records": [{"value": {"json": ' + b'{"a":' * 100_000): 400,
        post(path, b'{"records": [{"partition": ' + nines + b"}]}"): 400,
        post(path, b'{"records": [{"timestamp": ' + nines + b"}]}"): 400,
        post(path, b'{"records": [{"timestamp": 9223372036854775808}]}'): 400,
        post(path, b'{"records": [{"partition": 1e400}]}'): 400,
        post(path, b'{"records": [{"value": NaN}]}'): 400,
        post(path, b'{"records": [{"value": "\\ud800"}]}'): 400,
        post(path, b'{"records": [{"value": "\xff"}]}'): 400,
        post(path, b'\xff\xfe{\0"\0}\0'): 400,
        post(path, b'{"records": [], "records": [{"value": "\\u0000"}]}'): 400,
        post(path, b'{"records": [{"value": {"base64": "\\u0660"}}]}'): 400,
        post(path, b'{"records": [' + b"{}," * 10_000 + b"{}]}"): 400,
    }

    found = {request: attacker.status(request) for request in expected}

    assert [] == [(request[:150], status) for request, status in found.items() if expected[request] != status]


def test_pipelined_requests_get_their_responses_in_order(topic: str, attacker: HttpAttacker) -> None:
    """
    Requests that are sent without waiting are answered one after the other; garbage behind them ends the connection.
    """
    with attacker.connect() as client:
        client.sendall(get("/health/live") * 200 + get("/v1/topics") + b"garbage\r\n\r\n")
        received = b"".join(iter(lambda: client.recv(65_536), b""))

    assert [b"200"] * 201 + [b"400"] == re.findall(rb"HTTP/1.1 (\d+)", received)


def test_tiny_chunks_are_served(topic: str, attacker: HttpAttacker) -> None:
    """100,000 chunks with one byte each take most of a second to parse; each read parses a few of them."""
    record = b'{"records": [{"value": "1"}]}'
    end = b"%x\r\n%s\r\n0\r\n\r\n" % (len(record), record)

    assert 200 == attacker.status(chunked(f"/v1/topics/{topic}/records", b"1\r\n \r\n" * 100_000 + end))


def test_tiny_chunks_hold_up_no_others(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """Those of 50 clients take half a minute to parse, and a turn of the event loop parses few of them."""
    request = chunked(f"/v1/topics/{topic}/records", b"1\r\n \r\n" * 100_000)
    with attacker.crowd(50) as clients, ThreadPoolExecutor(50) as threads:
        for client in clients:
            threads.submit(_send, client, request)
        for _ in range(3):
            assert_others_are_served(broker, attacker, topic)
        for client in clients:
            client.shutdown(socket.SHUT_RDWR)


def test_idle_streams_leave_room(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """
    When 1,000 clients open streams, as many are served as may be open at once; the others get 503.  Other clients are
    served meanwhile, and streams again once those have gone.
    """
    path = f"/v1/topics/{topic}/stream"
    with attacker.crowd(CROWD) as clients:
        for client in clients:
            client.sendall(get(path))
        statuses = Counter(statuses_of(clients, 60))
        assert_others_are_served(broker, attacker, topic)
    until = time.monotonic() + SERVED_S_MAX
    while attacker.status(get(path)) == 503 and time.monotonic() < until:
        time.sleep(0.05)

    assert {200: WAITS_MAX, 503: CROWD - WAITS_MAX} == statuses
    assert 200 == attacker.status(get(path))


def test_a_crowd_that_receives_without_a_wait_takes_turns(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker
) -> None:
    """1,000 clients receive from 64 partitions at once: each of them would be asked a thousand times at a time."""
    path = f"/v1/queues/{broker.topic(64)}/crowd/receive"
    request = post(path, b'{"consumer": "c", "wait_ms": 0}')
    attacker.status(request)
    with attacker.crowd(CROWD) as clients:
        for client in clients:
            client.sendall(request[:-1])
        for client in clients:
            client.sendall(request[-1:])
        assert_others_are_served(broker, attacker, topic)
        statuses = Counter(statuses_of(clients, 120))

    assert {200: CROWD} == statuses


def test_the_last_connections_are_for_health(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """
    While only 16 connections are left, other paths get 503, with Retry-After, and the paths of health are served.
    """
    unfinished = post(
        f"/v1/topics/{topic}/records", b"{", size=100
    )  # waits for the rest of its body, so it is not idle
    with attacker.crowd(CONNECTIONS_MAX) as clients, contextlib.ExitStack() as more:
        for client in clients:
            client.sendall(unfinished)
        statuses_of(clients, 10, but=CONNECTIONS_MAX - RESERVED)  # the others are refused
        for _ in range(2 * RESERVED):  # in place of those that connections of earlier tests have kept away
            client = more.enter_context(attacker.connect())
            client.sendall(unfinished)
            if statuses_of([client], 0.2) == [503]:
                break
        refused, detail = attacker.json("/v1/topics")
        assert_others_are_served(broker, attacker, topic)

    assert 503 == refused
    assert "HTTP connections are open" in detail["detail"]


def test_slow_heads_are_ended(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """
    1,100 clients that send a head byte by byte lose their connections to new clients, and after 10 s in any case.
    """
    slow = get("/v1/topics")
    with attacker.crowd(1_100) as clients:

        def trickle() -> None:
            for at in range(len(slow) - 4):
                for client in clients:
                    try:
                        client.send(slow[at : at + 1])
                    except OSError:
                        continue
                if ended.wait(1):
                    return

        ended = threading.Event()
        trickling = threading.Thread(target=trickle)
        trickling.start()
        try:
            ended.wait(2)  # longer than a new connection is spared
            served = [attacker.json("/v1/topics")[0] for _ in range(20)]
            assert_others_are_served(broker, attacker, topic)
            statuses = Counter(statuses_of(clients, HEAD_S_MAX + 5))
        finally:
            ended.set()
            trickling.join()

    assert {200} == {*served}
    assert {0, 408} == {*statuses}
    assert CONNECTIONS_MAX - 2 * RESERVED < statuses[408]


@pytest.mark.parametrize("kind", [b"json", b"x-ndjson", b"octet-stream"])
def test_large_bodies_share_a_budget(broker: AttackedBroker, topic: str, attacker: HttpAttacker, kind: bytes) -> None:
    """
    When 200 clients send all but the end of a large body, or of a line, those beyond the budget get 503; small bodies
    pass.
    """
    path, size = f"/v1/topics/{topic}/records", BODY_BYTES_MAX
    begun = post(path, b" " * (size - 1), size=size, kind=kind)
    with attacker.crowd(200) as clients:
        sending = [threading.Thread(target=_send, args=(client, begun)) for client in clients]
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join()
        statuses = Counter(statuses_of(clients, 20, but=BYTES_MAX // size + 1))
        small = attacker.status(post(path, b'{"records": [{"value": "1"}]}'))
        assert_others_are_served(broker, attacker, topic)

    assert {503, None} == {*statuses}
    assert statuses[None] <= BYTES_MAX // size + 1
    assert 200 == small


@pytest.mark.parametrize("kind", [b"json", b"x-ndjson"])
def test_bodies_of_empty_headers_share_a_budget(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, kind: bytes
) -> None:
    """
    24 clients send a body of empty headers each, which take sixteen times its memory: few are decoded at a time.
    """
    record = b'{"headers": [' + b",".join([b'["",""]'] * 120_000) + b"]}"
    body = b'{"records": [' + record + b"]}" if kind == b"json" else (record + b"\n") * 4
    with attacker.crowd(24) as clients:
        request = post(f"/v1/topics/{topic}/records", body, kind=kind)
        sending = [threading.Thread(target=_send, args=(client, request)) for client in clients]
        for thread in sending:
            thread.start()
        for thread in sending:
            thread.join()
        statuses = Counter(statuses_of(clients, 60))
    attacker.wait_until_alone()

    assert {200, 503} >= {*statuses}
    assert 200 == attacker.status(request), "it is accepted when it is alone"


def _send(client: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # the broker closes connections that are too slow
        client.sendall(data)


def test_responses_that_are_not_read_are_bounded(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """
    200 clients request a megabyte each, ten times, and read nothing: the broker keeps few of the responses.
    """
    with broker.connect() as producer:
        producer.ask(produce_request(topic, *[bytes(1_000)] * 900), 9)
    path = f"/v1/topics/{topic}/partitions/0/records?limit=1000"
    with attacker.crowd(200, receive_buffer=4_096) as clients:
        for client in clients:
            client.sendall(get(path) * 10)
        assert_others_are_served(broker, attacker, topic)
        statuses = Counter(statuses_of(clients, 60))

    assert {200, 503} >= {*statuses}


@pytest.mark.parametrize(
    ("path", "count"), [("/metrics", CROWD), ("/openapi.json", CROWD), ("/docs", CROWD), ("", 200)]
)
def test_pages_that_are_not_read_are_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, path: str, count: int
) -> None:
    """
    Many clients request what is not of the API, or the console's page of the records of a topic, and read nothing.
    """
    with broker.connect() as producer:
        producer.ask(produce_request(topic, *[bytes(2_000)] * 100), 9)
    attacker.status(get(path or f"/topics/{topic}/0"))  # what is made once is made
    before = attacker.restart_peak()
    with attacker.crowd(count, receive_buffer=4_096) as clients:
        for client in clients:
            client.sendall(get(path or f"/topics/{topic}/0"))
        statuses = Counter(statuses_of(clients, 60))
        grown = attacker.peak() - before
    attacker.wait_until_alone()

    assert {200, 503} >= {*statuses}
    assert grown < GROWN_MAX
    assert 204 == attacker.status(get(f"/v1/topics/{topic}", method=b"DELETE"))


@pytest.mark.parametrize("kind", [b"json", b"x-ndjson"])
def test_crowds_of_empty_records_are_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, kind: bytes
) -> None:
    """
    400 clients write a thousand empty records each in a small body, and do not read where they are.
    """
    body = b'{"records":[' + b",".join([b"{}"] * 1_500) + b"]}" if kind == b"json" else b"{}\n" * 1_500
    request = post(f"/v1/topics/{topic}/records", body, kind=kind)
    with attacker.crowd(400, receive_buffer=4_096) as clients:
        for client in clients:
            _send(client, request)
        assert_others_are_served(broker, attacker, broker.topic())
        statuses = Counter(statuses_of(clients, 60))
    attacker.wait_until_alone()

    assert {200, 503} >= {*statuses}
    assert 200 == attacker.status(request)
    assert 204 == attacker.status(get(f"/v1/topics/{topic}", method=b"DELETE"))


@pytest.mark.parametrize("end", [b"", "😀".encode()])
@pytest.mark.parametrize("character", [b"\0", b'"', b"\xff", b"a"])
def test_a_large_record_of_a_small_batch_is_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, character: bytes, end: bytes
) -> None:
    """
    A compressed record is as large as the largest batch; each way to read it takes a few times that.
    """
    batch = _compressed([(None, character * (LARGE_BYTES - len(end)) + end, (), 0)])
    records, receive = f"/v1/topics/{topic}/partitions/0/records", f"/v1/queues/{topic}/{topic}/receive"
    attacker.status(post(receive, b'{"consumer": "c"}'))  # the group begins here
    with broker.connect() as producer:
        producer.ask(raw_produce_request(topic, batch), 9)
    requests = [
        get(records),
        get(f"{records}/0/value"),
        get(f"/v1/topics/{topic}/stream?from=earliest"),
        get(f"/sandglass/topics/{topic}/0"),
        post(receive, b'{"consumer": "c"}'),
    ]

    responses = []
    for request in requests:
        responses.append(attacker.first_bytes(request, LARGE_BYTES))
        attacker.wait_until_alone()  # the broker has dropped the rest of the response

    assert [] == [response[:500] for response in responses if len(response) < LARGE_BYTES]


def test_responses_that_find_no_room_keep_nothing(broker: AttackedBroker, topic: str, attacker: HttpAttacker) -> None:
    """
    A large record is read again and again, in each way, while a client does not take a smaller response: that there is
    no room turns out when the record has been decoded.
    """
    other = broker.topic()
    records, queue = f"/v1/topics/{topic}/partitions/0/records", f"/v1/queues/{topic}/{topic}"
    attacker.status(post(f"{queue}/receive", b'{"consumer": "c"}'))  # the group begins here
    with broker.connect() as producer:
        for name, size in ((topic, LARGE_BYTES), (other, 4 * MIB)):
            producer.ask(raw_produce_request(name, _compressed([(None, b"a" * size, (), 0)])), 9)
    requests = [
        get(records, CLOSE),
        get(f"{records}/0/value", CLOSE),
        get(f"/v1/topics/{topic}/stream?from=earliest", CLOSE),
        get(f"/sandglass/topics/{topic}/0", CLOSE),
        post(f"{queue}/receive", b'{"consumer": "c"}', CLOSE),
    ]
    with attacker.crowd(1, receive_buffer=4_096) as (idle,):
        idle.sendall(get(f"/v1/topics/{other}/partitions/0/records"))
        assert 200 == status_of(idle)  # and takes no more of it
        for request in requests * 6:
            assert len(attacker.first_bytes(request, LARGE_BYTES, tries=1)) < LARGE_BYTES
    assert LARGE_BYTES == len(attacker.first_bytes(get(records), LARGE_BYTES))  # there is room again


def test_countless_headers_of_a_small_batch_are_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker
) -> None:
    """
    A compressed batch of a kilobyte has a record with millions of headers, each of which would take a hundred bytes of
    memory.  Each way to read it is refused, or leaves the record out.
    """
    batch = _compressed([(None, b"", [("", None)] * 7_000_000, 0)])
    records, queue = f"/v1/topics/{topic}/partitions/0/records", f"/v1/queues/{topic}/{topic}"
    attacker.status(post(f"{queue}/receive", b'{"consumer": "c"}'))  # the group begins here
    with broker.connect() as producer:
        producer.ask(raw_produce_request(topic, batch), 9)

    assert (200, 1) == (attacker.status(get(queue)), attacker.json(queue)[1]["partitions"][0]["available"])
    assert 422 == attacker.status(get(records))
    assert 422 == attacker.status(get(f"{records}/0/value"))
    assert b"event: problem" in attacker.first_bytes(get(f"/v1/topics/{topic}/stream?from=earliest"), 400)
    assert b'"http_code": 422' in attacker.first_bytes(get(f"/sandglass/topics/{topic}/0"), 300)
    assert b'"messages":[]' in attacker.first_bytes(post(f"{queue}/receive", b'{"consumer": "c"}'), 200)
    assert b"and more headers" in attacker.first_bytes(get(f"/topics/{topic}/0", CLOSE), MIB)


@pytest.mark.parametrize("order", ["tidemill.share.priority", "tidemill.share.order"])
@pytest.mark.parametrize("of", ["headers", "records"])
def test_what_the_leader_of_a_queue_opens_is_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, of: str, order: str
) -> None:
    """
    For priorities, an order by key and times to live, the leader looks into batches, and for dead letters at records.
    A small compressed batch has millions of headers, or a million records.
    """
    rows = [(b"k", b"", [("", None)] * 7_000_000, 0)] if of == "headers" else [(b"k", b"", [], 0)] * 1_000_000
    batch = _compressed(rows)
    dead = broker.topic(errors_deadletterqueue_group_enable="true")
    work = broker.topic(tidemill_ttl_headers="true")
    group, queue = f"/v1/groups/{work}", f"/v1/queues/{work}/{work}"
    configs = {order: "key" if order.endswith("order") else "true", "errors.deadletterqueue.topic.name": dead}
    assert 204 == attacker.status(post(group, json.dumps({"configs": configs}).encode(), method=b"PATCH"))
    attacker.status(post(f"{queue}/receive", b'{"consumer": "c"}'))  # the group begins here
    attacker.restart_peak()
    with broker.connect() as producer:
        produced = producer.ask(raw_produce_request(work, batch), 9)
    assert 0 == produced.responses[0].partition_responses[0].error_code

    received = attacker.first_bytes(post(f"{queue}/receive", b'{"consumer": "c", "wait_ms": 5000}', CLOSE), MIB)

    if of == "records":
        assert b'"messages":[{' in received
    else:
        assert b'"messages":[]' in received
        letters = get(f"/v1/topics/{dead}/partitions/0/records?wait_ms=8000", CLOSE)
        assert b'"too large"' in attacker.first_bytes(letters, MIB)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("mib", [31, 60])
def test_batches_that_decompress_to_much_are_opened_one_at_a_time(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, mib: int, codec: Codec
) -> None:
    """
    Four clients look up a time in a batch of zeros, while a queue with priorities, times to live and dead letters
    receives it.  The broker looks into 31 MiB, and refuses to look into 60 MiB.
    """
    dead = broker.topic(errors_deadletterqueue_group_enable="true")
    work = broker.topic(tidemill_ttl_headers="true")
    group, receive = f"/v1/groups/{work}", f"/v1/queues/{work}/{work}/receive"
    configs = {"tidemill.share.priority": "true", "errors.deadletterqueue.topic.name": dead}
    assert 204 == attacker.status(post(group, json.dumps({"configs": configs}).encode(), method=b"PATCH"))
    attacker.status(post(receive, b'{"consumer": "c"}'))  # the group begins here
    batch = _compressed([(None, bytes(mib * MIB), [("tidemill-ttl", b"86400000")], time.time_ns() // 1_000_000)], codec)
    with broker.connect() as producer:
        produced = producer.ask(raw_produce_request(work, batch), 9)
    assert 0 == produced.responses[0].partition_responses[0].error_code
    asked = list_offsets_request(work, 1)
    attacker.restart_peak()

    with broker.crowd(4) as clients:
        for client in clients:
            client.send(asked, 5)
        received = attacker.first_bytes(post(receive, b'{"consumer": "c", "wait_ms": 5000}', CLOSE), MIB)
        found = [client.answer(asked, 5).topics[0].partitions[0] for client in clients]
    letters = attacker.first_bytes(get(f"/v1/topics/{dead}/partitions/0/records?wait_ms=8000", CLOSE), MIB)

    assert [0 if mib == 31 else -1] * 4 == [it.offset for it in found]
    assert b'"messages":[]' in received
    assert b'"too large"' in letters


@pytest.mark.parametrize("mib", [31, 60])
def test_batches_that_are_recompressed_take_turns(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker, mib: int
) -> None:
    """
    Eight clients send a batch of zeros to a topic with another codec.  The broker recompresses 31 MiB, and refuses 60
    MiB; smaller batches of others are recompressed meanwhile.
    """
    work, plain = broker.topic(compression_type="lz4"), broker.topic(compression_type="uncompressed")
    small = raw_produce_request(plain, _compressed([(None, b"small", (), time.time_ns() // 1_000_000)]))
    request = raw_produce_request(work, _compressed([(None, bytes(mib * MIB), (), time.time_ns() // 1_000_000)]))
    with broker.crowd(8) as clients:
        for client in clients:
            client.send(request, 9)
        began_at = time.monotonic()
        with broker.connect() as other:
            produced = other.ask(small, 9)
        assert time.monotonic() - began_at < SERVED_S_MAX
        found = [client.answer(request, 9).responses[0].partition_responses[0] for client in clients]

    assert [0 if mib == 31 else errors.MESSAGE_TOO_LARGE] * 8 == [it.error_code for it in found]
    assert 0 == produced.responses[0].partition_responses[0].error_code


def _compressed(rows: Sequence[RecordTuple], codec: Codec = Codec.ZSTD) -> bytearray:
    return build_batch(rows, codec=codec)


def test_countless_headers_of_records_that_wait_are_bounded(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker
) -> None:
    """
    A record with hundreds of thousands of headers is refused.  Millions in many records are listed, moved and released
    few at a time, also when 30 clients request lists at once and read nothing.
    """
    name, now_ms = f"{topic}-waiting", time.time_ns() // 1_000_000
    attacker.status(post("/v1/topics", b'{"name": "%s", "kind": "timer", "partitions": 1}' % name.encode()))
    timers = f"/v1/topics/{name}/timers"

    def written(records: int, headers: int) -> int:
        own = [("", None)] * headers + [("tidemill-delay", b"1h"), ("tidemill-arrivals", b"")]
        with broker.connect() as producer:
            batch = build_batch([(b"k", b"", own, now_ms)] * records)
            answered = producer.ask(raw_produce_request(name, batch), 9)
        code: int = answered.responses[0].partition_responses[0].error_code
        return code

    assert errors.INVALID_RECORD == written(1, 450_000)
    assert [0] * 6 == [written(45, 9_998) for _ in range(6)]
    status, page = attacker.json(f"{timers}?values=true&limit=1000")
    assert (200, 3) == (status, len(page["records"]))
    with attacker.crowd(30, receive_buffer=4_096) as clients:
        for client in clients:
            client.sendall(get(f"{timers}?values=true&limit=1000"))
        assert_others_are_served(broker, attacker, topic)
        statuses = Counter(statuses_of(clients, 60))
    assert {200, 503} >= {*statuses}
    rescheduled = attacker.first_bytes(post(f"{timers}:reschedule", b'{"key": "k", "delay": "1ms"}'), 400)
    assert b'"rescheduled":270' in rescheduled
    until = time.monotonic() + RELEASED_S_MAX
    while attacker.json(f"{timers}/stats")[1]["waiting"] and time.monotonic() < until:
        time.sleep(0.2)
    assert 270 == attacker.json(f"/v1/topics/{name}/partitions/0/records?limit=1")[1]["end"]
    assert 204 == attacker.status(get(f"/v1/topics/{name}", method=b"DELETE"))


def test_lists_of_large_records_that_wait_share_a_budget(
    broker: AttackedBroker, topic: str, attacker: HttpAttacker
) -> None:
    """
    30 clients request megabytes of several partitions and read nothing: few get them, and the others leave nothing
    behind.
    """
    name = f"{topic}-large"
    attacker.status(post("/v1/topics", b'{"name": "%s", "kind": "timer", "partitions": 8}' % name.encode()))
    with broker.connect() as producer:
        for number in range(8):
            batch = build_batch([(None, bytes(900_000), [("tidemill-delay", b"1h")], 0)])
            data = produce.Request.Topic.Partition(index=number, records=memoryview(batch))
            topics = [produce.Request.Topic(name=name, partition_data=[data])]
            asked = produce.Request(transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=topics)
            assert 0 == producer.ask(asked, 9).responses[0].partition_responses[0].error_code
    for _ in range(3):
        with attacker.crowd(30, receive_buffer=4_096) as clients:
            for client in clients:
                client.sendall(get(f"/v1/topics/{name}/timers?values=true"))
            statuses = Counter(statuses_of(clients, 60))
        attacker.wait_until_alone()
        assert {200, 503} == {*statuses}
    assert 204 == attacker.status(get(f"/v1/topics/{name}", method=b"DELETE"))


def test_a_connection_after_the_attacks_is_served(topic: str, attacker: HttpAttacker) -> None:
    """
    A client that keeps its connection is served again and again.
    """
    with attacker.connect() as client:
        found = []
        for _ in range(3):
            client.sendall(get("/health/live"))
            head, body = client.recv(65_536), b""
            while b"}" not in head + body:
                body += client.recv(65_536)
            found.append(head.split()[1])

    assert [b"200"] * 3 == found
