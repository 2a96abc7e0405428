"""Ask the controller on another broker: a Kafka request over the link, its response back."""

from collections.abc import Callable, Sequence
from typing import Any

from tidemill.broker.peers.peers import Answered
from tidemill.model import errors
from tidemill.model.broker_id import ReplicaKey
from tidemill.wire.schema import Api, Message, Part


class ControllerClient:
    def __init__(
        self, controller: Callable[[], ReplicaKey | None], ask: Callable[[ReplicaKey, Sequence[Part], Answered], bool]
    ) -> None:
        """`controller` is who leads the metadata shard, as far as this broker knows; `ask` is that of `Peers`."""
        self._controller = controller
        self._ask = ask

    def ask(self, api: Api, version: int, request: Message, answered: Callable[[Any], None]) -> None:
        """
        `answered` is called once, with the response, or with an error code: NOT_CONTROLLER when nobody has looked at
        the request, REQUEST_TIMED_OUT when that is not known.
        """

        def received(frame: memoryview | None) -> None:
            if frame is None:
                answered(errors.REQUEST_TIMED_OUT)
            elif not frame:
                answered(errors.NOT_CONTROLLER)
            else:
                answered(api.decode_response(version, frame, api.response_body_at(version, frame)))

        controller = self._controller()
        if controller is None or not self._ask(controller, api.encode_request(version, request, 0), received):
            answered(errors.NOT_CONTROLLER)
