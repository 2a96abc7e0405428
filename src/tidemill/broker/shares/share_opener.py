"""Asks the coordinator of a share group, on this broker or another one, how a share begins.

    coordinator: question ─▶ image as new as the controller's ─▶ group's state and configuration ─▶ answer

The start of a share never changes, so it must follow from a configuration that was acknowledged before the question.
The image of a coordinator that follows the controller lags a little; the coordinator therefore waits for its image.
"""

from collections.abc import Callable
from typing import Final

from tidemill.broker.controller.metadata_freshness import MetadataFreshness
from tidemill.broker.coordinators.coordinator_host import CoordinatorHost
from tidemill.broker.coordinators.group_coordinator import GROUPS, ask_group
from tidemill.broker.peers.cluster import Cluster
from tidemill.broker.shares.led_share import ShareKey
from tidemill.coordinator.share_group import requests
from tidemill.coordinator.share_group.responses import ShareOpened
from tidemill.metadata.image import ClusterImage
from tidemill.model import errors
from tidemill.model.broker_id import BrokerId
from tidemill.model.offset_reset import OffsetReset, ResetRule
from tidemill.peer import share_open
from tidemill.shard.pending import Pending

_RULES: Final = {
    ResetRule.EARLIEST: share_open.EARLIEST,
    ResetRule.LATEST: share_open.LATEST,
    ResetRule.BY_DURATION: share_open.BY_DURATION,
}
_RULE_OF: Final = {number: rule for rule, number in _RULES.items()}

Opened = Callable[[ShareOpened], None]


class ShareOpener:
    def __init__(
        self,
        broker_id: BrokerId,
        coordinators: CoordinatorHost,
        cluster: Cluster,
        image: Callable[[], ClusterImage],
        freshness: MetadataFreshness,
    ) -> None:
        self._broker_id = broker_id
        self._coordinators = coordinators
        self._cluster = cluster
        self._image = image
        self._freshness = freshness
        self._waiting: list[Callable[[bool], None]] = []  # questions that arrived after the freshness was asked for
        self._is_confirming = False  # one confirmation at a time: a new leader asks for all its shares at once

    def ask(self, key: ShareKey, opened: Opened, *, may_create: bool = False) -> None:
        """
        Ask once for the incarnation and the start of a share.  `opened` is called with the coordinator's answer, or
        with COORDINATOR_NOT_AVAILABLE if none arrives; the caller repeats the question.

        `may_create`: create the group if it does not exist, and the coordinators' topic.
        """
        if may_create:
            self._coordinators.of(GROUPS).when_created(lambda: self._ask(key, opened, may_create))
        else:
            self._ask(key, opened, may_create)

    def _ask(self, key: ShareKey, opened: Opened, may_create: bool) -> None:
        topic = self._coordinators.of(GROUPS).topic
        number = self._coordinators.of(GROUPS).partition_of(key.group)
        leader = None if topic is None or number is None else self._cluster.leader_of(topic, number)
        if leader is None:
            opened(_NOT_AVAILABLE)
        elif leader.broker_id == self._broker_id:
            self._ask_here(key, opened, may_create)
        else:
            self._ask_other(leader.broker_id, key, opened, may_create)

    def answer(self, request: share_open.Request) -> Pending[share_open.Response]:
        """Answer another broker's question on the coordinator."""
        pending: Pending[share_open.Response] = Pending()
        key = ShareKey(request.group_id, request.topic_id, request.partition)
        self._ask_here(key, lambda opened: pending.complete(_response(opened)), request.may_create)
        return pending

    def _ask_here(self, key: ShareKey, opened: Opened, may_create: bool) -> None:
        request = requests.ShareOpen(
            waiter=opened,
            group_id=key.group,
            topic_id=key.topic_id,
            partition=key.partition,
            may_create=may_create,
        )

        def confirmed(is_current: bool) -> None:
            if is_current:
                ask_group(self._coordinators, key.group, request)
            else:
                opened(_NOT_AVAILABLE)

        self._waiting.append(confirmed)
        self._confirm()

    def _confirm(self) -> None:
        """Confirm once, for all questions that wait, that this broker's image has every acknowledged change."""
        if self._is_confirming or not self._waiting:
            return
        self._is_confirming = True
        waiting, self._waiting = self._waiting, []

        def report(is_current: bool) -> None:
            self._is_confirming = False
            self._confirm()
            for confirmed in waiting:
                confirmed(is_current)

        self._freshness.ask(report)

    def _ask_other(self, broker_id: BrokerId, key: ShareKey, opened: Opened, may_create: bool) -> None:
        def answered(outcome: object) -> None:
            opened(_opened(outcome) if isinstance(outcome, share_open.Response) else _NOT_AVAILABLE)

        known = self._image().brokers.get(broker_id)
        request = share_open.Request(
            group_id=key.group, topic_id=key.topic_id, partition=key.partition, may_create=may_create
        )
        if known is None or not self._cluster.peers.ask(known.voter, share_open.API, request, answered):
            opened(_NOT_AVAILABLE)


_NOT_AVAILABLE: Final = ShareOpened(error_code=errors.COORDINATOR_NOT_AVAILABLE)


def _response(opened: ShareOpened) -> share_open.Response:
    return share_open.Response(
        error_code=opened.error_code,
        incarnation=opened.incarnation,
        start_rule=_RULES[opened.start.rule],
        start_duration_ms=opened.start.duration_ms,
    )


def _opened(response: share_open.Response) -> ShareOpened:
    start = OffsetReset(_RULE_OF[response.start_rule], response.start_duration_ms)
    return ShareOpened(error_code=response.error_code, incarnation=response.incarnation, start=start)
