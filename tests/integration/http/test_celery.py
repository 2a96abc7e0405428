"""A Celery application on Tidemill: workers are processes of their own, results are files."""

import importlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tidemill
from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_for

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.integration.http.celery_tasks"
TIMEOUT_S = 60
WAITS_S = 8  # longer than a busy machine takes to send three tasks and to ask a worker


class Application:
    """The application with a queue and a group of its own."""

    def __init__(self, broker: HttpClient, directory: Path) -> None:
        (directory / "results").mkdir()
        self.queue, self.group = f"tasks-{uuid.uuid4().hex[:8]}", f"celery-{uuid.uuid4().hex[:8]}"
        self.broker = broker
        self.settings = {
            "BROKER": f"tidemill+http://{broker.address}",
            "BACKEND": f"file://{directory / 'results'}",
            "QUEUE": self.queue,
            "GROUP": self.group,
        }
        self._log = directory / "worker.log"

    def load(self) -> ModuleType:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self.settings.items():
                environment.setenv(name, value)
            sys.modules.pop(MODULE, None)
            return importlib.import_module(MODULE)

    @contextmanager
    def worker(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a worker with two processes for tasks, and stop it as users do."""
        with self.started(name) as process:
            wait_for(lambda: f"{name}@test ready" in self.log(), f"worker {name} is not ready")
            yield process

    @contextmanager
    def started(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a worker, and do not wait until it is ready."""
        options = ["--concurrency", "2", "--hostname", f"{name}@test", "--loglevel", "INFO"]
        command = [sys.executable, "-m", "celery", "-A", MODULE, "worker", *options]
        with (
            self._log.open("ab") as log,
            subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | self.settings, cwd=ROOT) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(TIMEOUT_S)

    def log(self) -> str:
        return self._log.read_text()

    def counts(self) -> dict[str, int]:
        partitions = self.broker.ok("GET", f"/v1/queues/{self.queue}/{self.group}")["partitions"]
        return {name: sum(it[name] for it in partitions) for name in ("available", "locked", "delayed")}


@pytest.fixture
def application(brokers: list[HttpClient], tmp_path: Path) -> Application:
    return Application(brokers[0], tmp_path)


def test_an_application_runs_on_the_transport(application: Application) -> None:
    """
    A task that was sent before the worker started, a chain, a group, a retry, and remote control.
    """
    tasks = application.load()
    early = tasks.add.delay(1, 2)
    from celery import chain, group

    with application.worker("one"):
        found: list[Any] = [
            early.get(timeout=TIMEOUT_S),
            chain(tasks.add.s(1, 2), tasks.add.s(10))().get(timeout=TIMEOUT_S),
            group(tasks.add.s(number, number) for number in range(10))().get(timeout=TIMEOUT_S),
            tasks.fail_twice.delay(21).get(timeout=TIMEOUT_S),
        ]
        control = tasks.app.control.inspect(timeout=TIMEOUT_S, limit=1).ping()
    tasks.app.close()

    assert [3, 13, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18], 42] == found
    assert {"one@test": {"ok": "pong"}} == control
    assert {"available": 0, "locked": 0, "delayed": 0} == application.counts()
    assert "Traceback" not in application.log()


def test_a_task_of_a_killed_worker_runs_on_another_one(application: Application, tmp_path: Path) -> None:
    """
    The task outlives its lease of two seconds, because the worker renews it; then the worker is killed.
    """
    tasks = application.load()
    begun = tmp_path / "begun"
    with ExitStack() as stack:
        first = stack.enter_context(application.worker("one"))
        result = tasks.meet.delay(str(begun))
        wait_for(begun.exists, "the task has not begun")
        stack.enter_context(application.worker("two"))  # takes longer to start than the lease lasts
        once = begun.read_text()
        os.kill(first.pid, signal.SIGKILL)
        wait_for(lambda: len(begun.read_text().split()) == 2, "the task has not begun again")
        begun.with_suffix(".end").touch()
        was_redelivered = result.get(timeout=TIMEOUT_S)
    tasks.app.close()

    assert [str(first.pid)] == once.split()
    assert was_redelivered
    assert {"available": 0, "locked": 0, "delayed": 0} == application.counts()


def test_a_message_of_another_program_is_rejected(application: Application, cluster: Cluster) -> None:
    """One in the topic of remote control, which all workers read, is left out."""
    tasks = application.load()
    assert 5 == _sent_with_worker(application, tasks, cluster)
    tasks.app.close()

    assert "is not one of Celery; it is rejected" in application.log()
    assert {"available": 0, "locked": 0, "delayed": 0} == application.counts()


def _sent_with_worker(application: Application, tasks: ModuleType, cluster: Cluster) -> int:
    result = tasks.add.delay(2, 3)
    with tidemill.connect(cluster.bootstrap) as mill:
        for partition in range(2):
            mill.send(application.queue, "no task", partition=partition)
    with application.worker("one"):
        found = int(result.get(timeout=TIMEOUT_S))
        wait_for(lambda: application.counts()["available"] == 0, "the messages were not taken")
        with tidemill.connect(cluster.bootstrap) as mill:
            mill.send("celery.pidbox.exchange", "no command")
        assert {"one@test": {"ok": "pong"}} == tasks.app.control.inspect(["one@test"], timeout=20).ping()
    return found


def test_the_result_backend_rpc_is_refused_on_both_sides(application: Application) -> None:
    """
    The client is told before it sends a task, and the worker when it has a result.  No topic is created for replies.
    """
    files, application.settings["BACKEND"] = application.settings["BACKEND"], "rpc://"
    tasks = application.load()
    with pytest.raises(NotImplementedError, match="Tidemill has no queues for replies"):
        tasks.add.delay(1, 2)
    tasks.app.close()
    assert 404 == application.broker.send("GET", f"/v1/topics/{application.queue}").status

    application.settings["BACKEND"] = files
    tasks = application.load()
    tasks.add.delay(1, 2)
    replies = tasks.app.thread_oid
    tasks.app.close()
    application.settings["BACKEND"] = "rpc://"
    with application.worker("one"):
        wait_for(lambda: "Tidemill has no queues for replies" in application.log(), "the worker has not refused")

    assert replies in application.log()
    assert 404 == application.broker.send("GET", f"/v1/topics/{replies}").status


@pytest.fixture
def timed(application: Application) -> Application:
    """The application with a queue whose topic is a timer topic."""
    application.settings["OPTIONS"] = '{"kind": "timer"}'
    return application


def test_a_countdown_waits_in_a_timer_topic(timed: Application, tmp_path: Path) -> None:
    """
    No worker gets the task before it is due: the one that runs meanwhile is killed, and there is no lease to wait for.
    """
    tasks = timed.load()
    with timed.worker("one") as first:
        sent_at = time.time()
        due = datetime.fromtimestamp(sent_at + WAITS_S, UTC)
        results = [
            tasks.note.apply_async([str(tmp_path / "noted")], countdown=WAITS_S),
            tasks.note.apply_async([str(tmp_path / "noted")], eta=due),
            tasks.note.apply_async([str(tmp_path / "noted")], eta=due.replace(tzinfo=None)),
        ]
        assert 3 == tasks.add.delay(1, 2).get(timeout=TIMEOUT_S), "tasks without a countdown do not wait"
        scheduled = tasks.app.control.inspect(["one@test"], timeout=TIMEOUT_S).scheduled()
        assert {"one@test": []} == scheduled
        assert {"available": 0, "locked": 0, "delayed": 0} == timed.counts()
        os.kill(first.pid, signal.SIGKILL)
        first.wait(TIMEOUT_S)
        assert time.time() < sent_at + WAITS_S, "too slow: the tasks were due before the worker was killed"
    with timed.worker("two") as second:
        began = [result.get(timeout=TIMEOUT_S) for result in results]
        retried_after = tasks.fail_once.delay().get(timeout=TIMEOUT_S)
    tasks.app.close()

    assert all(it >= sent_at + WAITS_S for it, _ in began), "earlier than asked"
    assert [None] * 3 == [eta for _, eta in began], "held by the worker, too"
    assert [str(second.pid)] * 3 == (tmp_path / "noted").read_text().split()
    assert 1.5 <= retried_after < WAITS_S
    assert {"available": 0, "locked": 0, "delayed": 0} == timed.counts()


def test_a_queue_of_another_kind_is_named(timed: Application) -> None:
    """
    The topic of the queue exists, and its kind never changes.  Both the sender and the worker say so at once.
    """
    assert 201 == timed.broker.send("POST", "/v1/topics", {"name": timed.queue}).status
    tasks = timed.load()
    problem = f"the topic {timed.queue} of a queue exists and is of another kind"

    with pytest.raises(ValueError, match=problem):
        tasks.add.apply_async([1, 2], countdown=1)
    with timed.started("one") as worker:
        code = worker.wait(TIMEOUT_S)
    tasks.app.close()

    assert 0 != code
    assert problem in timed.log()


def test_an_unknown_kind_is_named(timed: Application) -> None:
    timed.settings["OPTIONS"] = '{"kind": "timed"}'
    tasks = timed.load()

    with pytest.raises(ValueError, match="kind='timed' in broker_transport_options"):
        tasks.add.delay(1, 2)
    tasks.app.close()


def test_an_address_without_a_broker_is_named() -> None:
    from kombu import Connection

    import tidemill.celery  # noqa: F401

    with (
        Connection("tidemill+http://127.0.0.1:1", connect_timeout=1) as connection,
        pytest.raises(Exception, match="no broker answered"),
    ):
        connection.ensure_connection(max_retries=1, interval_start=0)
