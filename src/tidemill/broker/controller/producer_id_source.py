"""ProducerIdSource: hands out producer ids one at a time, from blocks that the controller allocates to this broker."""

from collections import deque
from collections.abc import Callable

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.peers.unanswered import NO_CONTROLLER, Unanswered
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.peer.allocate_producer_ids import API, Request, Response
from tidemill.shard.pending import OUTCOME_UNKNOWN


class ProducerIdSource:
    def __init__(self, client: ControllerClient, broker_id: BrokerId) -> None:
        self._client = client
        self._broker_id = broker_id
        self._ids = range(0)
        self._waiting: deque[Callable[[int | Unanswered], None]] = deque()
        self._is_asking = False

    def take(self, taken: Callable[[int | Unanswered], None]) -> None:
        """
        Call `taken` once: with an id that no other producer ever gets, or with the reason why the controller has not
        allocated any ids.
        """
        self._waiting.append(taken)
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._ids:
            taken, self._ids = self._ids[0], self._ids[1:]
            self._waiting.popleft()(taken)
        if self._waiting and not self._is_asking:
            self._is_asking = True
            self._client.ask(API, Request(broker_id=self._broker_id)).then(self._allocated)

    def _allocated(self, outcome: Response | Unanswered) -> None:
        self._is_asking = False
        if isinstance(outcome, Unanswered):
            self._refuse(outcome)
        elif outcome.error_code or not outcome.count:
            self._refuse(NO_CONTROLLER if outcome.error_code == errors.NOT_CONTROLLER else OUTCOME_UNKNOWN)
        else:
            self._ids = range(outcome.first, outcome.first + outcome.count)
            self._serve()

    def _refuse(self, reason: Unanswered) -> None:
        waiting, self._waiting = self._waiting, deque()
        for taken in waiting:
            taken(reason)
