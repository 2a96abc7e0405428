"""MetadataFreshness: finds out whether this broker's image contains every acknowledged change.

    ask ─▶ controller: end offset of all acknowledged metadata? ─▶ wait until the image has reached that offset ─▶ True

This broker may delete data on the basis of its image only if the result is True.  Contact with the controller is not
enough: after a restart or a network partition, this broker's log lags for a while.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.controller.controller_client import ControllerClient
from tidemill.broker.machine import Machine
from tidemill.broker.peers.unanswered import Unanswered
from tidemill.metadata.image import ClusterImage
from tidemill.peer.image_offset import API, Request, Response

CURRENT_MS: Final = 1_000  # how long after the request a result may be used; a later one could be outdated
CHECK_S: Final = 0.05  # pause between two checks of the image's offset


class MetadataFreshness:
    def __init__(self, machine: Machine, image: Callable[[], ClusterImage], client: ControllerClient) -> None:
        """`image` returns the image of this broker."""
        self._machine = machine
        self._image = image
        self._client = client

    def ask(self, report: Callable[[bool], None]) -> None:
        """
        Call `report` once: with True, at most about `CURRENT_MS` after this call, if the image is current; with False
        if that cannot be established.
        """
        until_ms = self._machine.clock.monotonic_ms() + CURRENT_MS

        def answered(outcome: Response | Unanswered) -> None:
            if isinstance(outcome, Unanswered) or outcome.error_code:
                report(False)
            else:
                self._wait(outcome.offset, until_ms, report)

        self._client.ask(API, Request()).then(answered)

    def _wait(self, offset: int, until_ms: int, report: Callable[[bool], None]) -> None:
        if self._machine.clock.monotonic_ms() > until_ms:
            report(False)
        elif self._image().offset >= offset:
            report(True)
        else:
            self._machine.call_later(CHECK_S, lambda: self._wait(offset, until_ms, report))
