"""A Celery application on Tidemill, for the tests; its settings are in the environment."""

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

import tidemill.celery  # noqa: F401  (registers the transport)

OPTIONS: dict[str, Any] = json.loads(os.environ.get("OPTIONS", "{}"))
app = Celery("tasks", broker=os.environ["BROKER"], backend=os.environ["BACKEND"])
app.conf.update(
    broker_transport_options={"visibility_timeout": 2, "group": os.environ["GROUP"], "partitions": 2, **OPTIONS},
    task_acks_late=True,
    task_default_queue=os.environ["QUEUE"],
    worker_prefetch_multiplier=1,
)


@app.task  # type: ignore[untyped-decorator]
def add(one: int, other: int) -> int:
    return one + other


@app.task(bind=True, max_retries=3)  # type: ignore[untyped-decorator]
def fail_twice(self: Any, number: int) -> int:
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return number * 2


@app.task(bind=True)  # type: ignore[untyped-decorator]
def meet(self: Any, path: str) -> bool:
    """Note that an attempt has begun, and wait until the test lets it end; return whether it is a second delivery."""
    begun = Path(path)
    with begun.open("a") as file:
        file.write(f"{os.getppid()}\n")
    while not begun.with_suffix(".end").exists():
        time.sleep(0.05)
    return bool(self.request.delivery_info["redelivered"])


@app.task(bind=True)  # type: ignore[untyped-decorator]
def note(self: Any, path: str) -> tuple[float, Any]:
    """Write a line, and return the time at which the task began, and for which its worker has held it."""
    began = time.time()
    with Path(path).open("a") as file:
        file.write(f"{os.getppid()}\n")
    return began, self.request.eta


@app.task(bind=True, max_retries=1)  # type: ignore[untyped-decorator]
def fail_once(self: Any, began: float | None = None) -> float:
    """Fail, and return how many seconds later the task was tried again."""
    if began is None:
        raise self.retry(args=[time.time()], countdown=1.5)
    return time.time() - began
