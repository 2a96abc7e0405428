"""Whether the image here holds all that has been acknowledged: nothing may be deleted by less.

    ask ─▶ controller: how far does the metadata go? ─▶ the image here comes to that ─▶ told

That its broker is heard says nothing of the image: after a stop, or a cut, the log here is behind for a while.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.controller.controller_host import ControllerHost
from tidemill.broker.machine import Machine
from tidemill.metadata.image import ClusterImage
from tidemill.peer.image_offset import API, Request, Response
from tidemill.shard.pending import OUTCOME_UNKNOWN, OutcomeUnknown

CURRENT_MS: Final = 1_000  # after it was asked for: then it may be another
AGAIN_S: Final = 0.05


class MetadataFreshness:
    def __init__(
        self, machine: Machine, image: Callable[[], ClusterImage], controller: ControllerHost, link: ControllerClient
    ) -> None:
        self._machine = machine
        self._image = image
        self._controller = controller
        self._link = link

    def ask(self, told: Callable[[bool], None]) -> None:
        """`told` is called once: True at most `CURRENT_MS` after this, by the machine's clock; else nobody knows."""
        until_ms = self._machine.clock.monotonic_ms() + CURRENT_MS
        if self._controller.accepts_writes:
            self._controller.confirm_image_offset().then(lambda offset: self._wait(offset, until_ms, told))
            return

        def answered(response: Response | int) -> None:
            if isinstance(response, int) or response.error_code:
                told(False)
            else:
                self._wait(response.offset, until_ms, told)

        self._link.ask(API, 0, Request(), answered)

    def _wait(self, offset: int | OutcomeUnknown, until_ms: int, told: Callable[[bool], None]) -> None:
        if offset is OUTCOME_UNKNOWN or self._machine.clock.monotonic_ms() > until_ms:
            told(False)
        elif self._image().offset >= offset:
            told(True)
        else:
            self._machine.call_later(AGAIN_S, lambda: self._wait(offset, until_ms, told))
