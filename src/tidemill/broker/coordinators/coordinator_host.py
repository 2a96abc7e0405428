"""CoordinatorHost: the coordinators that run on this broker, one for each registered internal topic."""

from collections.abc import Sequence
from typing import Any, cast

from tidemill.broker.coordinators.coordinator_registration import AnyRegistration, CoordinatorRegistration
from tidemill.broker.coordinators.hosted_partition import CoreT
from tidemill.broker.coordinators.hosted_topic import HostedTopic, HostingBroker
from tidemill.broker.coordinators.replicated_core import RequestT
from tidemill.broker.coordinators.unbuilt_protocols import UnbuiltProtocols
from tidemill.metadata.image import ClusterImage
from tidemill.shard.shard import Shard


class CoordinatorHost:
    def __init__(self, registrations: Sequence[AnyRegistration], broker: HostingBroker) -> None:
        self._topics = {it.topic.name: HostedTopic(it, broker) for it in registrations}
        self.unbuilt_protocols = UnbuiltProtocols(broker.machine.clock, broker.machine.events)
        self._by_key_type = {it.registration.key_type: it for it in self._topics.values()}

    def of(self, registration: CoordinatorRegistration[RequestT, CoreT]) -> HostedTopic[RequestT, CoreT]:
        """
        Return the coordinator of a registration.  Raises KeyError if this broker was started without that registration.
        """
        return cast("HostedTopic[RequestT, CoreT]", self._topics[registration.topic.name])

    def of_key_type(self, key_type: int) -> HostedTopic[Any, Any] | None:
        """Return the coordinator for FindCoordinator's `key_type`; None if there is none."""
        return self._by_key_type.get(key_type) if key_type >= 0 else None

    def serving_changed(self, shard: Shard) -> None:
        """Load or drop the partitions of `shard`: this broker has started or stopped serving it as its leader."""
        for topic in self._topics.values():
            topic.serving_changed(shard)

    def follow(self, before: ClusterImage, image: ClusterImage) -> None:
        """Remove the state of topics that a change to the cluster image has deleted."""
        for topic in self._topics.values():
            topic.follow(before, image)

    def stop(self) -> None:
        for topic in self._topics.values():
            topic.stop()
