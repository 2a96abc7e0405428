"""
Tidemill: a distributed, durable message queue that speaks the Kafka protocol.

The names of the Python client are imported when they are first used, so that brokers and commands do not load it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.sdk.async_mill import AsyncMill as AsyncMill
    from tidemill.sdk.async_mill import connect_async as connect_async
    from tidemill.sdk.async_queue import AsyncQueue as AsyncQueue
    from tidemill.sdk.async_timers import AsyncTimers as AsyncTimers
    from tidemill.sdk.async_timers import Waiting as Waiting
    from tidemill.sdk.back_offs import constant as constant
    from tidemill.sdk.back_offs import exponential as exponential
    from tidemill.sdk.back_offs import linear as linear
    from tidemill.sdk.message import AsyncMessage as AsyncMessage
    from tidemill.sdk.message import Message as Message
    from tidemill.sdk.mill import Mill as Mill
    from tidemill.sdk.mill import connect as connect
    from tidemill.sdk.problems import BrokersUnavailable as BrokersUnavailable
    from tidemill.sdk.problems import LeaseExpired as LeaseExpired
    from tidemill.sdk.problems import RequestRefused as RequestRefused
    from tidemill.sdk.problems import SendFailed as SendFailed
    from tidemill.sdk.problems import TidemillError as TidemillError
    from tidemill.sdk.queue import Queue as Queue
    from tidemill.sdk.record import Sent as Sent
    from tidemill.sdk.timers import Timers as Timers

_MODULES = {
    "AsyncMessage": "message",
    "AsyncMill": "async_mill",
    "AsyncQueue": "async_queue",
    "AsyncTimers": "async_timers",
    "BrokersUnavailable": "problems",
    "LeaseExpired": "problems",
    "Message": "message",
    "Mill": "mill",
    "Queue": "queue",
    "RequestRefused": "problems",
    "SendFailed": "problems",
    "Sent": "record",
    "TidemillError": "problems",
    "Timers": "timers",
    "Waiting": "async_timers",
    "connect": "mill",
    "connect_async": "async_mill",
    "constant": "back_offs",
    "exponential": "back_offs",
    "linear": "back_offs",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"tidemill.sdk.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
