"""A broker that stops while HTTP clients wait for it."""

import http.client
import json
from pathlib import Path

from tests.integration.cli.dev_cluster import running_cluster
from tests.integration.http.http_client import TIMEOUT_S, HttpClient, wait_for, wait_until_known


def test_clients_that_wait_are_answered_when_the_broker_stops(tmp_path: Path) -> None:
    """
    A receive is answered with 503, and a stream ends as one that is complete; the broker logs no traceback.
    """
    with running_cluster(tmp_path / "data", 1) as cluster:
        broker = HttpClient(cluster.ready["http"])
        assert 201 == broker.send("POST", "/v1/topics", {"name": "jobs", "partitions": 1}).status
        wait_until_known([broker], "jobs")
        body = {"consumer": "me", "wait_ms": 0}
        wait_for(lambda: broker.send("POST", "/v1/queues/jobs/g/receive", body).status == 200, "the group is not open")
        stream = http.client.HTTPConnection(broker.address, timeout=TIMEOUT_S)
        stream.request("GET", "/v1/topics/jobs/stream")
        events = stream.getresponse()
        assert events.readline().startswith(b"id: 0:0@")
        with broker.open("POST", "/v1/queues/jobs/g/receive", body | {"wait_ms": 30_000}) as waiting:
            wait_for(lambda: "tidemill_share_fetches_waiting 1" in _metrics(broker), "the receive does not wait")
            code = cluster.stop()
            answer = http.client.HTTPResponse(waiting)
            answer.begin()
            problem = answer.read()
        rest = events.read()
        stream.close()

    assert (0, 503, "1") == (code, answer.status, answer.getheader("retry-after"))
    assert b"it is not known whether the request had its effect" in problem
    assert b'"error": "REQUEST_TIMED_OUT"' in problem
    assert b"" == rest.strip()
    assert "Traceback" not in cluster.stderr.read_text()


def test_an_upload_that_a_stop_cuts_off_says_what_is_written(tmp_path: Path) -> None:
    """A client sends lines now and then: it can go on with another broker at the line that the response names."""
    with running_cluster(tmp_path / "data", 1) as cluster:
        broker = HttpClient(cluster.ready["http"])
        assert 201 == broker.send("POST", "/v1/topics", {"name": "jobs", "partitions": 1}).status
        wait_until_known([broker], "jobs")
        upload = http.client.HTTPConnection(broker.address, timeout=TIMEOUT_S)
        upload.putrequest("POST", "/v1/topics/jobs/records")
        upload.putheader("Content-Type", "application/x-ndjson")
        upload.putheader("Content-Length", "1000")
        upload.endheaders(b'{"value": "a"}\n\n{"value": "b"}\n{"val')
        read = "/v1/topics/jobs/partitions/0/records"
        wait_for(lambda: len(broker.ok("GET", read)["records"]) == 2, "the lines are not written")
        cluster.stop()
        answer = upload.getresponse()
        found = json.loads(answer.read())
        upload.close()

    assert (503, "1") == (answer.status, answer.getheader("retry-after"))
    assert ([[0, 0, 2]], 4, None) == (found["written"], found["line"], found.get("error"))
    assert "from line on" in found["detail"]


def _metrics(broker: HttpClient) -> str:
    connection = http.client.HTTPConnection(broker.address, timeout=TIMEOUT_S)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text
