"""Simulated jobs run in order, and are reported when the test decides."""

import pytest

from tidemill.shard.jobs import Jobs
from tidemill.simulation.machine.disk_operation import PowerLost
from tidemill.simulation.machine.jobs import SimulatedJobs


def fail(error: BaseException) -> None:
    raise error


def test_nothing_happens_inside_submit() -> None:
    """`submit` neither runs nor reports a job; the report comes later, as with threads."""
    jobs, events = SimulatedJobs(), []
    port: Jobs = jobs

    port.submit(lambda: events.append("ran"), lambda _: events.append("reported"), fail)
    before = [*events]
    jobs.stabilize()

    assert (before, events) == ([], ["ran", "reported"])


def test_jobs_and_reports_keep_their_order() -> None:
    """Jobs run and are reported in the order of submission."""
    jobs, events = SimulatedJobs(), []
    for number in range(3):
        jobs.submit(lambda number=number: number, events.append, fail)

    jobs.stabilize()

    assert events == [0, 1, 2]


def test_a_test_can_stop_between_a_job_and_its_report() -> None:
    """A test can stop between a job and its report, when the disk has the data and the loop has no report yet."""
    jobs, events = SimulatedJobs(), []
    jobs.submit(lambda: events.append("disk"), lambda _: events.append("loop"), fail)

    jobs.execute()
    between, waiting = [*events], jobs.unreported
    jobs.report()

    assert (between, waiting, events, jobs.unreported) == (["disk"], 1, ["disk", "loop"], 0)


def test_jobs_that_reports_submit_are_executed_too() -> None:
    """Jobs that a report submits are executed, too, such as the next block of a journal."""
    jobs, events = SimulatedJobs(), []

    def again(number: int) -> None:
        events.append(number)
        if number < 3:
            jobs.submit(lambda: number + 1, again, fail)

    jobs.submit(lambda: 0, again, fail)
    jobs.stabilize()

    assert events == [0, 1, 2, 3]


def test_an_error_is_reported_and_a_power_loss_is_not() -> None:
    """`failed` receives the error that the job raised; `PowerLost` ends the run instead."""
    jobs, failures = SimulatedJobs(), []
    jobs.submit(lambda: 1 // 0, fail, failures.append)
    jobs.submit(lambda: fail(PowerLost()), fail, failures.append)

    jobs.step()

    with pytest.raises(PowerLost):
        jobs.step()
    assert [type(error) for error in failures] == [ZeroDivisionError]
