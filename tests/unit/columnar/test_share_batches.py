"""The micro-batches of a share group: who gets which record, and when it is acknowledged."""

import json
from collections.abc import Iterator

import pytest

from tests.unit.columnar.share_group_model import ShareGroupModel
from tidemill.client.failures import ClientError
from tidemill.columnar import share_batch, share_options
from tidemill.columnar.share_batch import Holder, JsonBatch
from tidemill.columnar.share_batches import ShareBatches
from tidemill.model.partition import TopicPartition

START = share_batch.start_json("g")
P0, P1 = TopicPartition("jobs", 0), TopicPartition("jobs", 1)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Runs:
    """Starts runs of one query; closes them after the test, as Spark does."""

    def __init__(self, group: ShareGroupModel) -> None:
        self._group = group
        self.clock = Clock()
        self._started: list[ShareBatches] = []

    def start(self, **options: str) -> ShareBatches:
        given = {"kafka.bootstrap.servers": "h:1", "subscribe": "jobs", "mode": "share", "group": "g", **options}
        self._started.append(
            ShareBatches(
                share_options.parse(given),
                f"run{len(self._started)}",
                open_locks=lambda: self._group,
                open_partitions=lambda: self._group,
                monotonic=self.clock,
                sleep=self.clock.sleep,
            )
        )
        return self._started[-1]

    def close(self) -> None:
        for one in self._started:
            one.close()


@pytest.fixture
def group() -> ShareGroupModel:
    return ShareGroupModel()


@pytest.fixture
def runs(group: ShareGroupModel) -> Iterator[Runs]:
    running = Runs(group)
    yield running
    running.close()


def offsets(run: ShareBatches, end: JsonBatch) -> list[tuple[int, int]]:
    """Return (partition, offset) of the records of a batch."""
    parts = run.works(json.loads(json.dumps(end)))
    return [(part.partition, n) for part in parts for one in part.ranges for n in range(one.first, one.end)]


def test_a_batch_is_acknowledged_when_the_next_one_is_asked_for(group, runs):
    """Spark asks for the next batch after it has logged the commit of the last one, and not before."""
    group.partition(0, 3)
    group.partition(1, 2)
    run = runs.start()

    end = run.next(START, None)
    assert [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)] == offsets(run, end)
    assert not group.logs[P0].finished

    assert end == run.next(end, None)
    assert {0, 1, 2} == group.logs[P0].finished
    assert {0, 1} == group.logs[P1].finished


def test_a_batch_is_the_same_whenever_spark_asks(group, runs):
    """Neither a repeated plan nor a repeated read changes a batch, even after the locks were lost."""
    group.partition(0, 3)
    run = runs.start()
    end = run.next(START, None)
    first = offsets(run, end)
    group.logs[P0].append(2)
    group.lose_locks()

    assert end == run.next(START, None)
    assert first == offsets(run, end)


def test_what_was_lost_is_not_acknowledged(group, runs):
    """After the locks were lost, the records belong to the next batch too: delivered twice rather than never."""
    group.partition(0, 3)
    run = runs.start()
    end = run.next(START, None)
    group.lose_locks()

    again = run.next(end, None)

    assert not group.logs[P0].finished
    assert [(0, 0), (0, 1), (0, 2)] == offsets(run, again)


def test_a_stopped_run_releases_its_batch(group, runs):
    group.partition(0, 3)
    run = runs.start()
    run.next(START, None)

    run.close()

    assert not group.logs[P0].held
    assert not group.logs[P0].finished


def test_a_batch_of_an_earlier_run_gets_only_what_it_had(group, runs):
    """
    The sink may have committed the batch before the crash, and then ignores it: a record that joined it now would be
    lost.
    """
    log = group.partition(0, 4)
    crashed = runs.start(maxoffsetspertrigger="2")
    end = crashed.next(START, 2)
    held = dict(log.held)
    del log.held[1]  # its lock has ended
    log.append(3)

    run = runs.start()

    assert [(0, 0)] == offsets(run, end)
    assert held.keys() - {1} == log.held.keys()
    after = run.next(end, None)
    assert {0} == log.finished
    assert [(0, n) for n in range(1, 7)] == offsets(run, after)


def test_a_batch_of_an_earlier_run_waits_for_what_it_held(group, runs):
    """Its members are acknowledged with it, so the run fails rather than leave out the records of one."""
    group.partition(0, 2)
    end = runs.start().next(START, None)
    run = runs.start()
    group.is_down = True

    with pytest.raises(ClientError, match="the broker is down"):
        run.works(end)
    group.is_down = False


def test_a_complete_batch_of_an_earlier_run_is_acknowledged(group, runs):
    """The crash came between Spark's commit log and the acknowledgement: what is still locked is acknowledged."""
    log = group.partition(0, 2)
    end = runs.start().next(START, None)
    run = runs.start()

    for _ in range(3):  # Spark asks again and again
        assert end == run.next(end, None)

    assert {0, 1} == log.finished
    assert 1 == group.requests.count("accept")


def test_a_failed_acknowledgement_is_repeated(group, runs):
    """The query goes on, and the acknowledgement is sent again with the next one."""
    log = group.partition(0, 2)
    run = runs.start()
    end = run.next(START, None)
    group.is_down = True
    run.complete(end)
    group.is_down = False
    assert not log.finished

    run.close()

    assert {0, 1} == log.finished


def test_an_idle_group_is_asked_ten_times_a_second(group, runs):
    """Spark asks a hundred times a second, and there is no empty batch."""
    group.partition(0, 0)
    run = runs.start()

    for _ in range(100):
        assert START == run.next(START, None)
        runs.clock.now += 0.01

    assert 10 == group.requests.count("progress")


def test_the_records_of_a_batch_are_limited(group, runs):
    """The limit is shared among the partitions; what one does not need, another gets."""
    group.partition(0, 100)
    group.partition(1, 2)
    run = runs.start()

    assert 10 == len(offsets(run, run.next(START, 10)))


def test_scattered_records_are_collected(group, runs):
    """One acquisition sees a stretch of the log; the batch gets the records of several."""
    group.stretch = 2
    group.partition(0, 6)
    run = runs.start()

    assert 6 == len(offsets(run, run.next(START, None)))


def test_the_locks_of_the_group_are_the_limit(group, runs):
    group.locks_max = 4
    group.partition(0, 6)
    run = runs.start()

    assert 4 == len(offsets(run, run.next(START, None)))


def test_available_now_ends_although_records_keep_coming(group, runs):
    """The run ends when the first available record of each partition was not there at its start."""
    log = group.partition(0, 3)
    group.partition(1, 0)
    run = runs.start()
    run.end_with_available()

    begin, count = START, 0
    for _ in range(20):
        log.append(2)
        end = run.next(begin, 2)
        if end == begin:
            break
        begin, count = end, count + 1

    assert 3 == count


def test_available_now_waits_for_records_that_a_leader_withholds(group, runs):
    """
    A new leader may withhold records for one lock duration.  Spark ends the run when there is no next batch, so the
    batch is awaited, with a look at the group every 5 s: the leader may be replaced meanwhile.
    """
    group.partition(0, 3)
    run = runs.start()
    run.end_with_available()
    group.withheld_ms = [8_000, 3_000, 1]

    assert 3 == len(offsets(run, run.next(START, None)))
    assert [5.0, 3.0, 0.1] == runs.clock.slept


def test_available_now_waits_for_the_first_leader_that_delivers(group, runs):
    group.partition(0, 3)
    group.partition(1, 3)
    run = runs.start()
    run.end_with_available()
    group.withheld_ms = [2_000, 1_000]

    assert 6 == len(offsets(run, run.next(START, None)))
    assert [1.0] == runs.clock.slept


def test_available_now_does_not_wait_for_what_others_hold(group, runs):
    log = group.partition(0, 3)
    log.held.update(dict.fromkeys(range(3), "other"))
    run = runs.start()
    run.end_with_available()

    assert START == run.next(START, None)
    assert [] == runs.clock.slept


def test_a_run_without_an_end_does_not_wait(group, runs):
    """Spark asks again, and can stop the query meanwhile."""
    group.partition(0, 3)
    run = runs.start()
    group.withheld_ms = [8_000]

    assert START == run.next(START, None)
    assert [] == runs.clock.slept


@pytest.mark.parametrize("withheld_ms", [[], [1_000]])
def test_after_a_failed_batch_suspects_are_alone(group, runs, withheld_ms):
    """
    A record that made batches fail is delivered with few others by the broker.  Each such delivery is a batch of its
    own, so that the record's last attempts do not use up those of its neighbours.  A look at records that a leader
    withholds changes nothing about it.
    """
    log = group.partition(0, 3)
    group.stretch = 1
    crashed = runs.start()
    end = crashed.next(START, None)
    crashed.close()
    log.counts[1] = log.counts[2] = 2
    run = runs.start()
    assert [] == offsets(run, end)
    group.withheld_ms = withheld_ms
    if withheld_ms:
        assert end == run.next(end, None)
        runs.clock.sleep(1)

    batches = []
    for _ in range(3):
        end = run.next(end, None)
        batches.append(offsets(run, end))

    assert [[(0, 0)], [(0, 1)], [(0, 2)]] == batches


def test_without_a_failure_retried_records_share_a_batch(group, runs):
    log = group.partition(0, 3)
    group.stretch = 1
    log.counts[1] = log.counts[2] = 2
    run = runs.start()

    assert 3 == len(offsets(run, run.next(START, None)))


def test_the_locks_are_renewed_while_a_batch_runs(group, runs, monkeypatch):
    monkeypatch.setattr("tests.unit.columnar.share_group_model.LOCK_MS", 0)  # the shortest interval
    group.partition(0, 1)
    run = runs.start()
    run.next(START, None)

    for _ in range(200):
        if "renew" in group.requests:
            break
        run._keeper._is_closing.wait(0.05)

    assert "renew" in group.requests


def test_an_interrupted_acquisition_is_released(group, runs, monkeypatch):
    """SIGTERM can interrupt the request, so its response, with locks, is lost."""
    log = group.partition(0, 2)
    run = runs.start()
    acquire = group.acquire

    def interrupted(holder: Holder, records_max: int) -> None:
        acquire(holder, records_max)
        raise SystemExit(143)

    monkeypatch.setattr(group, "acquire", interrupted)
    with pytest.raises(SystemExit):
        run.next(START, None)
    assert log.held

    run.close()

    assert not log.held


@pytest.mark.parametrize(
    ("offset", "message"),
    [
        ({"jobs": {"0": 5}}, "the checkpoint is of a query without mode=share: choose another checkpointLocation"),
        (share_batch.start_json("h"), "group=g contradicts the checkpoint, whose group is h"),
    ],
)
def test_a_checkpoint_of_another_query_is_refused(group, runs, offset, message):
    group.partition(0, 1)

    with pytest.raises(ValueError, match=message):
        runs.start().next(offset, None)
