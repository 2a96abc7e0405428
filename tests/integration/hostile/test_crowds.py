"""Many clients at once, and clients that disconnect in the middle of a request."""

import time

from tests.integration.hostile.attacked_broker import MIB, AttackedBroker, fetch_request, frame_of, produce_request

GROWN_MAX = 48 * MIB
LONG_MS = 20_000


def test_a_herd_of_fetches_wakes_together(broker: AttackedBroker) -> None:
    """
    A single record answers all 500 consumers that wait at the end of a partition.
    """
    topic = broker.topic()
    request = fetch_request(topic, wait_ms=LONG_MS)
    with broker.crowd(500) as herd:
        for client in herd:
            client.send(request, 11)
        time.sleep(0.3)
        with broker.connect() as producer:
            producer.ask(produce_request(topic, b"wake up"), 9)
        answers = [client.answer(request, 11) for client in herd]

    assert all(b"wake up" in bytes(answer.responses[0].partitions[0].records) for answer in answers)
    broker.unhurt(grown_max=GROWN_MAX)


def test_fetches_of_disconnected_clients_are_dropped(broker: AttackedBroker) -> None:
    """When 300 clients disconnect while their fetches wait for up to a day, the broker drops the fetches and frees
    their memory.
    """
    topic = broker.topic(partitions=50)
    request = fetch_request(topic, wait_ms=86_400_000, partitions=50)
    before = broker.resident_bytes()
    for _ in range(5):
        with broker.crowd(300) as herd:
            for client in herd:
                client.send(request, 11)
            time.sleep(0.1)
            for client in herd:
                client.reset()
    time.sleep(0.2)

    assert broker.resident_bytes() - before < 48 * MIB
    broker.unhurt(grown_max=GROWN_MAX)


def test_3000_short_connections_leave_no_trace(broker: AttackedBroker) -> None:
    """The broker keeps no state for 3,000 short connections, whether they are closed normally or reset."""
    for round_ in range(3_000):
        client = broker.connect()
        if round_ % 2:
            client.reset()
        else:
            client.close()

    broker.unhurt(grown_max=GROWN_MAX)


def test_idle_connections_are_cheap(broker: AttackedBroker) -> None:
    """1,000 clients that stay connected after one request use little memory."""
    before = broker.resident_bytes()
    request = fetch_request("nowhere")
    with broker.crowd(1_000) as clients:
        for client in clients:
            client.send(request, 11)
        for client in clients:
            client.frame()
        grown = broker.resident_bytes() - before

        assert grown < 16 * MIB, f"{grown / 1_000:.0f} B for each"
        broker.unhurt(grown_max=GROWN_MAX)


def test_interrupted_produce_requests_append_whole_batches_or_nothing(broker: AttackedBroker) -> None:
    """An incomplete request appends nothing; a complete one may append its batch even if the client has
    disconnected.
    """
    topic = broker.topic()
    frame = frame_of(produce_request(topic, *[b"x" * 1_000] * 100), 9)
    for round_ in range(200):
        client = broker.connect()
        client.socket.sendall(frame[: len(frame) * (round_ % 5) // 4])
        client.reset()
    time.sleep(0.2)

    with broker.connect() as client:
        answer = client.ask(fetch_request(topic), 11).responses[0].partitions[0]
    assert 0 == answer.high_watermark % 100
    broker.unhurt(grown_max=GROWN_MAX)
