"""Celery's transport: the address of a broker in its URL, and what it cannot do."""

import json
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

from tidemill.sdk.celery_transport import Channel, http_address
from tidemill.sdk.message import AsyncMessage


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://mill-1", "http://mill-1:9080"),
        ("http://:secret@mill-1:80/", "http://mill-1:80"),
        ("https://[::1]:443", "https://[::1]:443"),
        ("http://[::1]", "http://[::1]:9080"),
    ],
)
def test_the_address_has_a_port_and_no_password(url: str, expected: str) -> None:
    assert expected == http_address(urlsplit(url))


class LinkStub:
    """Notes which topics are created and written to."""

    def __init__(self) -> None:
        self.declared: list[str] = []
        self.sent: list[str] = []

    def declare(self, queue: str) -> None:
        self.declared.append(queue)

    def send_task(self, queue: str, _: object) -> None:
        self.sent.append(queue)


def channel_with(link: LinkStub) -> Channel:
    channel = object.__new__(Channel)
    channel._positions = {}
    channel.connection = SimpleNamespace(link=link)
    return channel


TASK = {"properties": {"correlation_id": "1", "reply_to": "replies"}, "headers": {"task": "add", "id": "1"}}
RESULT = {"properties": {"correlation_id": "1"}, "headers": {}}


def test_a_client_of_the_rpc_backend_is_refused() -> None:
    """
    It declares a queue for replies, bound to no exchange, before it sends a task.  It would wait for its result for
    ever, and a worker would write it to a topic that no program reads.
    """
    link = LinkStub()
    channel = channel_with(link)
    channel._new_queue("replies", auto_delete=True)

    for refused in (lambda: channel._new_queue("tasks"), lambda: channel._put("tasks", TASK)):
        with pytest.raises(NotImplementedError, match=r"queue replies .*choose another result backend"):
            refused()
    with pytest.raises(NotImplementedError, match="choose another result backend"):
        channel._begin("replies")
    assert ([], []) == (link.declared, link.sent)


def test_a_result_of_the_rpc_backend_is_refused() -> None:
    link = LinkStub()
    channel = channel_with(link)

    with pytest.raises(NotImplementedError, match=r"queue replies is a reply.*choose another result backend"):
        channel._put("replies", RESULT)
    assert ([], []) == (link.declared, link.sent)


@pytest.mark.parametrize(
    "message",
    [
        TASK,
        {"properties": {"correlation_id": "1", "reply_to": "replies"}},  # a task in version 1 of the protocol
        {"properties": {"correlation_id": "1"}, "headers": {"task": "add"}},  # of another program
        {"properties": {}, "headers": None},  # no task, but a message of a program that uses kombu
    ],
)
def test_other_messages_are_no_results(message: dict[str, Any]) -> None:
    link = LinkStub()

    channel_with(link)._put("tasks", message)

    assert (["tasks"], ["tasks"]) == (link.declared, link.sent)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("tidemill-deliver-at", b"1800000000000"), ("tidemill-arrival", b"7")], None),
        ([("tidemill-deliver-at", b"1800000000000")], "2027-01-15T08:00:00+00:00"),
        ([("tidemill-arrival", b"7")], "2027-01-15T08:00:00+00:00"),
        ([], "2027-01-15T08:00:00+00:00"),
    ],
    ids=["timer topic", "log that replaced a timer topic", "timer topic, sent without a time", "log"],
)
def test_a_task_that_has_waited_in_its_topic_has_no_eta(headers: Any, expected: str | None) -> None:
    """
    The worker would hold it for up to a second more.  A task whose topic does not wait is held until its ETA.
    """
    task = {"headers": {"task": "add", "eta": "2027-01-15T08:00:00+00:00"}, "properties": {"delivery_info": {}}}
    fields: dict[str, Any] = dict.fromkeys(("_lease", "_leases", "key", "timestamp"))
    message = AsyncMessage(
        topic="t", partition=0, offset=0, attempt=1, value=json.dumps(task).encode(), headers=tuple(headers), **fields
    )
    channel = channel_with(LinkStub())
    channel._held = {}
    channel._next_delivery_tag = lambda: "1"

    payload = channel._payload(message)

    assert task["headers"] | {"eta": expected} == payload["headers"]
