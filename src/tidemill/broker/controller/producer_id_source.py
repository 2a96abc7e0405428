"""Producer ids for InitProducerId: taken one by one from blocks that the controller gives out."""

from collections import deque
from collections.abc import Callable

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.metadata.producer_ids import AllocateProducerIds, ProducerIdBlock
from tidemill.model.broker_id import BrokerId
from tidemill.peer.allocate_producer_ids import API, Request, Response
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown


class ProducerIdSource:
    def __init__(self, controller: ControllerHost, link: ControllerClient, broker_id: BrokerId) -> None:
        self._controller = controller
        self._link = link
        self._broker_id = broker_id
        self._ids = range(0)
        self._waiting: deque[Callable[[int | None], None]] = deque()
        self._is_asking = False

    def take(self, taken: Callable[[int | None], None]) -> None:
        """`taken` gets an id that no other producer has had, now or later; None when none can be had now."""
        self._waiting.append(taken)
        self._give()

    def _give(self) -> None:
        while self._waiting and self._ids:
            taken, self._ids = self._ids[0], self._ids[1:]
            self._waiting.popleft()(taken)
        if self._waiting and not self._is_asking:
            self._is_asking = True
            self._ask()

    def _ask(self) -> None:
        if self._controller.accepts_writes:
            self._controller.submit(AllocateProducerIds(broker_id=self._broker_id)).then(self._allocated)
            return

        def answered(response: Response | int) -> None:
            if isinstance(response, int) or response.error_code:
                self._allocated(None)
            else:
                self._allocated(ProducerIdBlock(ids=range(response.first, response.first + response.count)))

        self._link.ask(API, 0, Request(broker_id=self._broker_id), answered)

    def _allocated(self, block: ProducerIdBlock | OutcomeUnknown | None) -> None:
        self._is_asking = False
        if block is None or block is OUTCOME_UNKNOWN or not block.ids:
            waiting, self._waiting = self._waiting, deque()
            for taken in waiting:
                taken(None)
            return
        self._ids = block.ids
        self._give()
