"""The Python client lists, cancels and reschedules what waits, on a cluster of three brokers."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import tidemill
from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import wait_for
from tests.integration.timers.conftest import TimerTopic


def test_what_waits_is_changed_until_it_is_due(cluster: Cluster, topic: TimerTopic) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)
    with tidemill.connect(cluster.bootstrap) as mill:
        for number in range(6):
            mill.send(topic.name, f"v{number}", key=f"k{number}", timer_id=f"t{number}", delay=f"{number + 1}h")
        timers = mill.timers(topic.name)

        found = timers.list(values=True)
        assert [f"v{number}".encode() for number in range(6)] == [it.value for it in found]
        assert [b"t2"] == [it.timer_id for it in timers.list(key="k2")]
        assert 6 == timers.stats()["waiting"]

        assert (1, 0) == (timers.cancel(timer_id="t0"), timers.cancel(timer_id="t0"))
        assert 2 == timers.cancel(*found[:3])
        assert 1 == timers.reschedule(timer_id=b"t3", at=at)
        assert 1 == timers.reschedule(key="k4", delay=0)
        assert 1 == timers.reschedule(timer_id=["t5", "none"], shift=timedelta(hours=-6, minutes=-1))
        wait_for(lambda: len(timers.list()) == 1, "records that are due were not released")
        (left,) = timers.list()
        assert (b"t3", at) == (left.timer_id, left.due)
        assert 1 == timers.cancel(all=True)
    assert {"v4", "v5"} == {it["value"] for it in topic.released()}


def test_asyncio_has_the_same(cluster: Cluster, topic: TimerTopic) -> None:
    async def run() -> None:
        async with tidemill.connect_async(http=[broker["http"] for broker in cluster.brokers]) as mill:
            await mill.send(topic.name, "v", key="k", timer_id="t", delay="1h")
            timers = mill.timers(topic.name)
            assert 1 == await timers.reschedule(timer_id="t", delay="2h")
            (found,) = await timers.list(timer_id="t")
            assert timedelta(minutes=110) < found.due - datetime.now(UTC) < timedelta(minutes=130)
            assert 1 == await timers.cancel(found)
            assert 0 == (await timers.stats())["waiting"]

    asyncio.run(run())


def test_a_schedule_is_not_moved_to_where_it_would_be_skipped(cluster: Cluster, topic: TimerTopic) -> None:
    """
    With a delay of 0 it comes at once.  What another partition refuses is not shifted in any.
    """
    with tidemill.connect(cluster.bootstrap) as mill:
        for partition in range(2):
            recurs = {} if partition else {"schedule": "every 1h", "missed": "none"}
            headers = {f"tidemill-{name}": text for name, text in recurs.items()}
            begin = datetime.now(UTC) + timedelta(hours=1)
            mill.send(topic.name, "v", partition=partition, timer_id="t", at=begin, headers=headers)
        timers = mill.timers(topic.name)
        before = timers.list()

        for change in ({"at": datetime.now(UTC) - timedelta(hours=1)}, {"shift": "-2h"}):
            with pytest.raises(tidemill.RequestRefused, match=r"arrival 0: tidemill-missed=none: .* would be skipped"):
                timers.reschedule(timer_id="t", partition=0, **change)  # type: ignore[arg-type]
        with pytest.raises(tidemill.RequestRefused, match="would be skipped"):
            timers.reschedule(all=True, shift="-2h")

        assert before == timers.list()
        assert 1 == timers.reschedule(timer_id="t", partition=0, delay=0)
        wait_for(lambda: topic.released(), "the schedule did not come")


def test_a_topic_of_another_kind_is_refused(cluster: Cluster, topic: TimerTopic) -> None:
    topic.brokers[0].send("POST", "/v1/topics", {"name": "plain-sdk"})
    wait_for(
        lambda: all(it.send("GET", "/v1/topics/plain-sdk").status == 200 for it in topic.brokers), "it is not known"
    )

    with (
        tidemill.connect(cluster.bootstrap) as mill,
        pytest.raises(tidemill.RequestRefused, match="of kind log") as refused,
    ):
        mill.timers("plain-sdk").cancel(all=True)
    assert 409 == refused.value.status
