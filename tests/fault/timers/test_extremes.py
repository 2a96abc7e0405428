"""Extremes of timer topics: the year 9999, a million records of one millisecond, a full disk.  Nothing is lost."""

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from benchmarks.tidemill_broker import TidemillBroker
from tests.fault.cluster_processes import wait_until
from tests.fault.extent import SLACK, times
from tests.fault.small_disk import FULL, ROOM, fill, mount_small
from tests.fault.timers.short_topic import Headers, at, create, now_ms, produce, reading
from tests.fault.timers.timer_changes import cluster_of, waiting
from tidemill.client.timer_choice import TimerChoice, due_at
from tidemill.client.timer_client import TimerClient

TOPIC = "delayed"
YEAR_9999_MS = 253_402_300_799_999  # its last millisecond
AT_ONCE = times(30_000, 1_000_000)
ON_FULL_DISK = times(20_000, 1_000_000)
LEAD_S = times(4, 60)  # for producing them
HOUR_MS = 3_600_000
ANSWER_S_MAX = 2.0  # of another request while many records are released
RELEASED_S_MAX = times(60, 300)
NONE_S = 1.0  # in which nothing may be released
ARRIVALS_REFUSED_BYTES = 190 << 20  # free on the disk: too few for arrivals, enough for releases
RELEASES_WAIT_BYTES = 50 << 20  # too few for releases as well


@contextmanager
def answers_of(bootstrap: str) -> Iterator[list[float]]:
    """Ask for metadata again and again.  The list gets the seconds that each answer took."""
    taken: list[float] = []
    is_over = threading.Event()
    problems: list[BaseException] = []

    def ask() -> None:
        cluster = cluster_of(bootstrap)
        try:
            while not is_over.wait(0.02):
                began = time.monotonic()
                cluster.refresh({TOPIC})
                taken.append(time.monotonic() - began)
        except BaseException as problem:  # reported in the thread of the test
            problems.append(problem)
        finally:
            cluster.close()

    thread = threading.Thread(target=ask, name="requests", daemon=True)
    thread.start()
    try:
        yield taken
    finally:
        is_over.set()
        thread.join()
    assert [] == problems


def metric(broker: TidemillBroker, name: str) -> float:
    with urlopen(f"http://{broker.http}/metrics", timeout=10) as answer:
        (value,) = re.findall(rf"^tidemill_{name} (\S+)$".encode(), answer.read(), re.MULTILINE)
    return float(value)


@pytest.mark.timeout(120)
def test_records_of_the_far_future_wait(tmp_path: Path) -> None:
    """
    A due time beyond 2³² ms, or in the year 9999, neither comes at once nor stops other records; not after a kill.
    """
    long_ms = (1 << 32) + 5
    far: list[Headers] = [
        at(YEAR_9999_MS),
        [("tidemill-deliver-at", b"9999-12-31T23:59:59.999Z")],
        [("tidemill-delay", b"%d" % long_ms)],
        [("tidemill-delay", b"20000d")],
    ]
    began = now_ms()
    broker = TidemillBroker(tmp_path)
    try:
        broker.wait_until_ready()
        port = int(broker.bootstrap.rpartition(":")[2])
        create(broker.bootstrap, TOPIC, replicas=1)
        assert [] == produce(broker.bootstrap, TOPIC, [*enumerate(far), (4, at(now_ms() + 500))])
        ended = now_ms()
        with reading(broker.bootstrap, TOPIC) as deliveries:
            wait_until(lambda: len(deliveries) >= 1, "the first record that is due")
            broker.kill()
            broker = TidemillBroker(tmp_path, port=port)
            broker.wait_until_ready()
            assert [] == produce(broker.bootstrap, TOPIC, [(5, at(now_ms() + 500))])
            wait_until(lambda: len(deliveries) >= 2, "the second record that is due")

        cluster = cluster_of(broker.bootstrap)
        listed = [it.order for it in TimerClient(cluster).records(TOPIC)]
        cluster.close()
    finally:
        broker.stop()

    assert [4, 5] == list(deliveries.numbers)
    assert [2, 3, 0, 1] == [it.arrival for it in listed]
    assert [YEAR_9999_MS] * 2 == [it.due_ms for it in listed[2:]]
    assert began + long_ms <= listed[0].due_ms <= ended + long_ms


@pytest.mark.timeout(times(180, 900))
def test_many_records_of_one_millisecond_come_in_the_order_of_their_arrival(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    They are released in batches, between which the broker answers other requests.
    """
    broker = TidemillBroker(tmp_path)
    try:
        broker.wait_until_ready()
        create(broker.bootstrap, TOPIC, replicas=1)
        due_ms = now_ms() + LEAD_S * 1_000
        with reading(broker.bootstrap, TOPIC) as deliveries:
            assert [] == produce(broker.bootstrap, TOPIC, ((number, at(due_ms)) for number in range(AT_ONCE)))
            with answers_of(broker.bootstrap) as taken:
                wait_until(lambda: len(deliveries) >= AT_ONCE, "all records", seconds_max=RELEASED_S_MAX)
        left = waiting(broker.bootstrap, TOPIC)
        lag = metric(broker, "loop_lag_seconds_max")
    finally:
        broker.stop()

    with capsys.disabled():
        print(
            f"\n{AT_ONCE} records: the last came after {deliveries.seen_ms[-1] - due_ms} ms; meanwhile requests took "
            f"up to {1_000 * max(taken):.0f} ms, and the event loop was held for up to {1_000 * lag:.0f} ms"
        )
    assert [*range(AT_ONCE)] == list(deliveries.numbers) == list(deliveries.offsets) == list(deliveries.arrivals)
    assert due_ms <= min(deliveries.stamps_ms) and due_ms <= min(deliveries.seen_ms)
    assert left == 0
    assert max(taken) < ANSWER_S_MAX * SLACK and lag < ANSWER_S_MAX * SLACK


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk as the data directory of a broker."""
    data = tmp_path / "data"
    if not mount_small(data):
        pytest.skip("only root may mount a tmpfs")
    yield data
    subprocess.run(["umount", "-l", str(data)], check=True)


@pytest.mark.timeout(times(180, 1_200))
def test_a_full_disk_refuses_arrivals_and_releases_what_is_due(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Producers get a clear error.  If even less room is left, releases wait, too; when there is room again, all goes on
    and nothing is lost.
    """
    broker = TidemillBroker(tmp_path)
    half = ON_FULL_DISK // 2
    ballast = small_disk / "ballast"

    def logged(event: str) -> bool:
        return event in broker.log.read_text(errors="replace")

    try:
        broker.wait_until_ready()
        create(broker.bootstrap, TOPIC, replicas=1)
        soon_ms = now_ms() + LEAD_S * 1_000
        dues = [soon_ms if number < half else soon_ms + HOUR_MS for number in range(ON_FULL_DISK)]
        assert [] == produce(broker.bootstrap, TOPIC, ((number, at(due_ms)) for number, due_ms in enumerate(dues)))
        with reading(broker.bootstrap, TOPIC) as deliveries:
            fill(ballast, ARRIVALS_REFUSED_BYTES)
            wait_until(lambda: logged(FULL), "the event 'disk full'")
            refused = produce(broker.bootstrap, TOPIC, [(-1, at(soon_ms))], retries=0)
            wait_until(lambda: len(deliveries) >= half, "what is due", seconds_max=RELEASED_S_MAX)

            fill(ballast, RELEASES_WAIT_BYTES)
            wait_until(lambda: metric(broker, "disk_free_bytes") <= RELEASES_WAIT_BYTES, "the look at the free space")
            cluster = cluster_of(broker.bootstrap)
            outcome = TimerClient(cluster).resolve(TOPIC, TimerChoice(), due_at(now_ms()))
            cluster.close()
            time.sleep(NONE_S)
            released_without_room = len(deliveries) - half

            ballast.unlink()
            wait_until(lambda: logged(ROOM), "free space")
            assert [] == produce(broker.bootstrap, TOPIC, [(ON_FULL_DISK, at(now_ms()))])
            wait_until(lambda: len(deliveries) > ON_FULL_DISK, "all records", seconds_max=RELEASED_S_MAX)
        left = waiting(broker.bootstrap, TOPIC)
    finally:
        broker.stop()

    with capsys.disabled():
        print(f"\n{ON_FULL_DISK} records: {half} were released while the disk was full; {outcome}")
    assert ["KAFKA_STORAGE_ERROR"] == refused
    assert ON_FULL_DISK - half == outcome.changed
    assert 0 == released_without_room
    assert [*range(ON_FULL_DISK + 1)] == sorted(deliveries.numbers)
    assert 0 == left
