"""Until a broker has responded, the client gives up a wrong address early; afterwards, it waits for outages to end."""

import socket
import time
from contextlib import ExitStack

import pytest

from tests.unit.client.fake_cluster import Disconnect, FakeCluster
from tests.unit.client.test_socket_dial import black_hole, refusing
from tidemill.client import connection_settings
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.failures import RetriesExhausted
from tidemill.wire.messages import metadata


def cluster_at(*servers, **keys):
    named = {key.replace("_", "."): value for key, value in keys.items()}
    at = ",".join(f"{host}:{port}" for host, port in servers)
    return ClusterMetadata(connection_settings.from_keys({"bootstrap.servers": at, "retry.backoff.ms": "10", **named}))


def test_the_time_for_the_first_contact_is_ten_seconds():
    """
    By default, a wrong address causes an error within ten seconds.
    """
    settings = connection_settings.from_keys({"bootstrap.servers": "b:1"})

    assert 10_000 == min(settings.connect_timeout_ms, settings.api_timeout_ms)


def test_a_wrong_address_is_given_up_early_with_one_sentence():
    """
    The error for a wrong address names bootstrap.servers, the reason and what to check.  It is raised within the
    timeout for opening a connection, although a call may retry for longer.
    """
    with refusing() as wrong:
        cluster = cluster_at(wrong, socket_connection_setup_timeout_ms="400")
        began_at = time.monotonic()

        with pytest.raises(RetriesExhausted) as failed:
            cluster.refresh({"t"})

    assert time.monotonic() - began_at < 30  # retries up to default.api.timeout.ms would take 60 s
    assert str(failed.value) == (
        f"no broker of bootstrap.servers=127.0.0.1:{wrong.port} responded within 400 ms: cannot connect to broker "
        f"127.0.0.1:{wrong.port}: [Errno 111] Connection refused; check the address, and that the broker is running"
    )


def test_silent_addresses_share_the_time_for_the_first_contact():
    """
    Several bootstrap servers that do not respond share the time limit, so they take no longer than a single one.
    """
    with ExitStack() as stack:
        silent = [stack.enter_context(black_hole()) for _ in range(10)]
        cluster = cluster_at(*silent, socket_connection_setup_timeout_ms="600")
        began_at = time.monotonic()

        with pytest.raises(RetriesExhausted, match=r"no broker of bootstrap.servers=.* responded within 600 ms"):
            cluster.refresh({"t"})

    assert time.monotonic() - began_at < 4  # ten addresses at 0.6 s each would take 6 s


def test_a_server_that_accepts_and_says_nothing_is_given_up_early():
    """
    A server that accepts the connection but never responds is treated as a wrong address.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cluster = cluster_at(listener.getsockname(), socket_connection_setup_timeout_ms="300")
        began_at = time.monotonic()

        with pytest.raises(RetriesExhausted, match=r"did not respond within \d+ ms"):
            cluster.refresh({"t"})

    assert time.monotonic() - began_at < 15  # a request would wait for request.timeout.ms, 30 s


def test_a_silent_address_does_not_hide_a_broker():
    """
    If a bootstrap server does not respond, the servers after it are tried within the same time limit.
    """
    with black_hole() as silent, FakeCluster() as running:
        broker = running.settings().bootstrap[0]
        cluster = cluster_at(silent, broker, socket_connection_setup_timeout_ms="500")
        cluster.refresh({"t"})
        cluster.close()

    assert 1 == running.count("metadata")


def test_a_broker_that_is_starting_is_found():
    """
    A broker that is starting is found if it serves connections before the time limit for the first response.
    """
    failures = []

    def starting(broker_id, name, request):
        if len(failures) < 3:
            failures.append(name)
            raise Disconnect
        return

    with FakeCluster() as running:
        running.hook = starting
        cluster = ClusterMetadata(running.settings())
        cluster.refresh({"t"})
        cluster.close()

    assert (["api_versions"] * 3, 1) == (failures, running.count("metadata"))


@pytest.mark.parametrize("was_reached", [True, False])
def test_after_the_first_response_outages_are_waited_for(was_reached):
    """
    Once a broker has responded to this process or, before a Spark task began, to the driver, a call retries up to
    default.api.timeout.ms.
    """
    with FakeCluster() as running:
        settings = running.settings(socket_connection_setup_timeout_ms="100", default_api_timeout_ms="400")
        cluster = ClusterMetadata(settings.reached() if was_reached else settings)
        if not was_reached:
            cluster.refresh({"t"})
            cluster.close()

    stopped = refusing(settings.bootstrap[0].port)
    with stopped, pytest.raises(RetriesExhausted, match="gave up after 400 ms: cannot connect"):
        cluster.refresh({"t"})


def test_a_refresh_asks_again_while_a_topic_has_no_leader():
    """
    A refresh does not reuse its first response: it requests a topic without a leader again until the topic has one.
    """
    with FakeCluster() as running:

        def electing(broker_id, name, request):
            if name != "metadata" or running.count("metadata") > 1:
                return None
            return metadata.Response(
                brokers=[], topics=[metadata.Response.Topic(error_code=5, name="t", partitions=[])]
            )

        running.hook = electing
        cluster = ClusterMetadata(running.settings(default_api_timeout_ms="30000"))
        cluster.refresh({"t"})
        cluster.close()

    assert 2 == running.count("metadata")
