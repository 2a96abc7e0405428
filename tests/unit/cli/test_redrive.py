"""Sending letters back, with a share that the test controls."""

from collections.abc import Mapping, Sequence

from tests.unit.cli.dead_letters import dead_letter
from tidemill.cli.redrive import BATCH_LETTERS_MAX, SILENCE_S_MAX, Redrive, RedriveCounts, SentBack
from tidemill.cli.redrive_plan import OffsetRun, RedrivePlan, plan
from tidemill.spark.pipelines.frame.progress import SilentProgress


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Share:
    """The leaders of a dead-letter topic.  They write `written_per_poll` letters each time they are asked."""

    def __init__(self, written_per_poll: int = 1_000_000) -> None:
        self.dead: dict[int, set[int]] = {}
        self.batches: list[int] = []
        self.unwritten: dict[int, int] = {}
        self._written_per_poll = written_per_poll

    def send_back(self, partition: int, runs: Sequence[OffsetRun], *, is_trial: bool = False) -> SentBack:
        wanted = {offset for run in runs for offset in range(run.first, run.last + 1)}
        dead = self.dead.setdefault(partition, set())
        sent = len(wanted - dead)
        self.batches.append(len(wanted))
        if is_trial:
            return SentBack(sent=sent, before=len(wanted) - sent, undecided=0)
        self.unwritten[partition] = self.unwritten.get(partition, 0) + sent
        dead |= wanted
        return SentBack(sent=sent, before=len(wanted) - sent, undecided=0)

    def waiting(self) -> Mapping[int, int]:
        self.unwritten = {number: max(0, it - self._written_per_poll) for number, it in self.unwritten.items()}
        return self.unwritten


def planned(count: int, partitions: int = 1) -> RedrivePlan:
    letters = [dead_letter(offset, partition=number) for number in range(partitions) for offset in range(count)]
    return plan(letters, "dlq.orders", to=None, topics={"orders"})


def redrive_of(share: Share, clock: Clock | None = None) -> Redrive:
    clock = clock or Clock()
    return Redrive(share, SilentProgress(), monotonic=clock.monotonic, sleep=clock.sleep)


def test_a_second_redrive_sends_nothing() -> None:
    """
    What the leaders have sent back is not sent again, and is counted apart.
    """
    share, plan = Share(), planned(700, partitions=2)
    first, second = redrive_of(share), redrive_of(share)

    first.send(plan)
    second.send(plan)

    assert (RedriveCounts(sent=1_400), RedriveCounts(before=1_400)) == (first.counts, second.counts)
    assert BATCH_LETTERS_MAX == max(share.batches)


def test_a_trial_counts_what_was_not_sent_before() -> None:
    """
    A trial sends nothing; it counts what the same redrive would send.
    """
    share, plan = Share(), planned(700)
    redrive_of(share).send(plan, letters_max=600)
    trial, redrive = redrive_of(share), redrive_of(share)

    trial.send(plan, is_trial=True)
    redrive.send(plan)

    assert RedriveCounts(sent=100, before=600) == trial.counts == redrive.counts


def test_the_limit_counts_only_what_was_not_sent_before() -> None:
    """
    `--max 100` sends the next 100 letters each time.
    """
    share, plan = Share(), planned(250)
    counts = []
    for _ in range(4):
        redrive = redrive_of(share)
        redrive.send(plan, letters_max=100)
        counts.append(redrive.counts.sent)

    assert [100, 100, 50, 0] == counts


def test_the_rate_is_not_exceeded() -> None:
    """
    At 100 a second, 1,000 letters take ten seconds, in small batches; letters that were sent before take no time.
    """
    share, clock = Share(), Clock()

    redrive_of(share, clock).send(planned(1_000), rate=100)
    after_first = clock.seconds
    redrive_of(share, clock).send(planned(1_000), rate=100)

    assert 9.99 <= after_first <= 10.01 and after_first == clock.seconds
    assert 20 == max(share.batches)


def test_the_command_waits_until_all_are_written() -> None:
    """
    While letters are written, the wait goes on, however long it takes.
    """
    share, clock = Share(written_per_poll=1), Clock()
    redrive = redrive_of(share, clock)
    redrive.send(planned(1_000))

    assert {} == redrive.wait()
    assert clock.seconds > SILENCE_S_MAX


def test_the_wait_ends_when_nothing_is_written() -> None:
    """
    If no letter is written for a while, the command says how many remain in which partition.
    """
    share, clock = Share(written_per_poll=0), Clock()
    redrive = redrive_of(share, clock)
    redrive.send(planned(3, partitions=2))

    assert {0: 3, 1: 3} == redrive.wait()
    assert SILENCE_S_MAX <= clock.seconds < SILENCE_S_MAX + 1
