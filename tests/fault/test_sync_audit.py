"""
No response leaves before its sync, as the system calls of a running broker show.  Transcripts whose calls are in the
wrong order test the auditor itself.
"""

import shutil
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from benchmarks import raw_load, workloads
from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.strace_transcript import STRING_BYTES_MAX, TRACED, parse
from tests.fault.sync_audit import Breach, Proof, Request, audit

CONNECTIONS, REQUESTS_PER_CONNECTION, IN_FLIGHT = 4, 12, 3
TOPIC = "audit"

JOURNAL, CLIENT = "7</data/journal/0>", "9<TCP:[127.0.0.1:9092->127.0.0.1:40001]>"
WRITE = f'11 pwritev({JOURNAL}, [{{iov_base="..value-1..", iov_len=11}}], 1, 4096) = 11'
DURABLE_WRITE = WRITE.replace("pwritev(", "pwritev2(").replace("4096)", "4096, RWF_DSYNC)")
SYNC = f"11 fdatasync({JOURNAL}) = 0"
RESUMED = "11 <... pwritev resumed>) = 11"
ANSWER = f'10 write({CLIENT}, "\\0\\0\\0\\6\\0\\0\\0\\5ok", 10) = 10'
REQUEST = Request(b"value-1", 5, 40001)


def verdict(*lines: str) -> Proof | Breach:
    (only,) = audit([REQUEST], parse(lines))
    return only


def test_the_order_is_write_sync_response() -> None:
    """The auditor accepts a write, a sync and a response if each begins after the previous one has ended."""
    proof = verdict(WRITE, SYNC, ANSWER)

    assert isinstance(proof, Proof)
    assert (proof.write.began, proof.sync.began, proof.answer.began) == (0, 1, 2)


def test_a_sync_by_another_thread_counts_too() -> None:
    """A sync by another thread counts, too, because it makes all earlier writes to the file durable."""
    other = SYNC.replace("11 ", "12 ")

    assert isinstance(verdict(WRITE, other, ANSWER), Proof)


def test_a_durable_write_is_its_own_sync() -> None:
    """A durable write, such as that of a large journal block, needs no separate sync."""
    assert isinstance(verdict(DURABLE_WRITE, ANSWER), Proof)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([WRITE, ANSWER, SYNC], id="answer before sync"),
        pytest.param([ANSWER, WRITE, SYNC], id="answer before write"),
        pytest.param([SYNC, WRITE, ANSWER], id="sync before write"),
        pytest.param([WRITE, SYNC.replace("= 0", "= -1 EIO (Input/output error)"), ANSWER], id="failed sync"),
        pytest.param([WRITE, SYNC.replace("journal/0", "journal/1"), ANSWER], id="sync of another file"),
        pytest.param([WRITE.replace("value-1", "value-2"), SYNC, ANSWER], id="another value"),
        pytest.param([WRITE.replace("= 11", "= 7"), SYNC, ANSWER], id="short write"),
        pytest.param([WRITE, SYNC], id="no answer"),
        pytest.param([ANSWER, DURABLE_WRITE], id="answer before the durable write"),
        pytest.param([DURABLE_WRITE.replace("= 11", "= 7"), ANSWER], id="short durable write"),
        pytest.param(
            [WRITE.replace("pwritev(", "pwritev2(").replace("..value", "RWF_DSYNC]value"), ANSWER],
            id="a value that reads like a durable write",
        ),
        pytest.param([WRITE, SYNC, ANSWER.replace("\\5ok", "\\4ok")], id="answer to another request"),
        pytest.param([WRITE, SYNC, ANSWER.replace("40001", "40002")], id="answer on another connection"),
        pytest.param(
            [WRITE, SYNC.replace(") = 0", " <unfinished ...>"), ANSWER, "11 <... fdatasync resumed>) = 0"],
            id="answer while the sync still runs",
        ),
        pytest.param(
            [WRITE.replace(") = 11", " <unfinished ...>"), SYNC.replace("11 ", "12 "), RESUMED, ANSWER],
            id="sync began before the write had ended",
        ),
    ],
)  # fmt: skip
def test_the_auditor_finds_a_breach(lines: list[str]) -> None:
    """The auditor reports every transcript in which the order is broken."""
    assert isinstance(verdict(*lines), Breach)


def test_responses_that_share_a_write_are_found() -> None:
    """The auditor finds a response that begins in the middle of one write and ends in the next."""
    first = f'10 write({CLIENT}, "\\0\\0\\0\\6\\0\\0\\0\\4ok\\0\\0\\0\\6\\0", 15) = 15'
    second = f'10 write({CLIENT}, "\\0\\0\\5ok", 5) = 5'

    assert isinstance(verdict(WRITE, SYNC, first, second), Proof)
    assert isinstance(verdict(WRITE, first, SYNC, second), Breach)


@pytest.mark.timeout(120)
def test_every_acknowledgement_follows_its_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    For each request with acks=all, a running broker writes the value to the journal, then syncs that file, and then
    responds.
    """
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed (Debian package strace)")
    transcript = tmp_path / "strace.txt"
    strace = ["strace", "-f", "-yy", "-v", "-s", str(STRING_BYTES_MAX), "-o", str(transcript)]
    broker = TidemillBroker(tmp_path, wrapper=[*strace, "-e", "trace=" + ",".join(TRACED)])
    try:
        broker.wait_until_ready()
        workloads.create_topic(bootstrap=broker.bootstrap, topic=TOPIC, partitions=1)
        # Produce with a retrying client first, so that the partition has a leader when the raw requests arrive.
        workloads.produce(
            bootstrap=broker.bootstrap, topic=TOPIC, records=1, record_bytes=100, partitions=1,
            one_record_per_request=False, by_lot=False,
        )  # fmt: skip
        requests = send_from_several_connections(broker.bootstrap)
    finally:
        broker.stop_wrapped()

    lines = transcript.read_text(encoding="latin-1").splitlines()
    verdicts = audit(requests, parse(lines), file_name="journal")

    proofs = [each for each in verdicts if isinstance(each, Proof)]
    with capsys.disabled():
        files = sorted({proof.write.target.rpartition("/")[2] for proof in proofs})
        print(f"\nsync audit: {len(proofs)} of {len(requests)} answers left after the sync of {', '.join(files)}")
    assert [each.what for each in verdicts if isinstance(each, Breach)] == []
    assert len(proofs) == CONNECTIONS * REQUESTS_PER_CONNECTION


def send_from_several_connections(bootstrap: str) -> list[Request]:
    """Pipeline requests on several connections at the same time, so that requests share journal blocks."""
    requests: list[Request] = []
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            requests.extend(send_pipelined(bootstrap, number))
        except (OSError, AssertionError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    return requests


def send_pipelined(bootstrap: str, number: int) -> list[Request]:
    host, _, port = bootstrap.rpartition(":")
    requests: list[Request] = []
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        client_port = connection.getsockname()[1]
        for first in range(0, REQUESTS_PER_CONNECTION, IN_FLIGHT):
            frames = b""
            for index in range(first, first + IN_FLIGHT):
                correlation_id = 1_000 * (number + 1) + index
                value = b"audit-%d-%d-of-%d" % (number, index, client_port)
                batch = raw_load.record_batch([value], timestamp=int(time.time() * 1_000))
                frames += raw_load.produce_frame(TOPIC, 0, batch, correlation_id=correlation_id)
                requests.append(Request(value, correlation_id, client_port))
            connection.sendall(frames)
            for _ in range(IN_FLIGHT):
                response = answers.read(struct.unpack(">i", answers.read(4))[0])
                assert raw_load.produce_error(response, TOPIC) == 0, response
    return requests
