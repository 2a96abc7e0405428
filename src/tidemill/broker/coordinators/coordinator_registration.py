"""CoordinatorRegistration: everything that the host needs to know about an internal topic and its coordinator.

To add a coordinator, write its core (`replicated_core.py`) and its handlers, add its topic to
`model/internal_topics.py`, and add one registration to `registrations.py`.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Final, Generic

from tidemill.broker.coordinators.hosted_partition import CoreT
from tidemill.broker.coordinators.replicated_core import RequestT
from tidemill.metadata.image import ClusterImage
from tidemill.model.config_resolution import BrokerLayers
from tidemill.model.entropy import Entropy
from tidemill.model.internal_topics import InternalTopic
from tidemill.model.topic import TopicId
from tidemill.shard.pending import OutcomeUnknown

NO_KEY_TYPE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreContext:
    """What a core may use: the current configuration, a source of random bytes, and the cluster image."""

    layers: Callable[[], BrokerLayers]
    entropy: Entropy
    image: Callable[[], ClusterImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopics(Generic[RequestT, CoreT]):
    """How the deletion of topics is reported to a core that stores topic ids."""

    topic_ids: Callable[[CoreT], Set[TopicId]]  # all ids that the core's state refers to
    forget: Callable[[frozenset[TopicId]], RequestT]  # returns the request that removes the ids; it needs no reply


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRegistration(Generic[RequestT, CoreT]):
    topic: InternalTopic  # created when the coordinator is first needed
    partition_for: Callable[[str, int], int]  # (a request's key, the partition count) → partition
    new_core: Callable[[CoreContext], CoreT]  # called each time this broker starts to lead a partition
    rejection: Callable[[RequestT, int | OutcomeUnknown], object]  # see `PartitionOwner.rejection`
    key_type: int = NO_KEY_TYPE  # FindCoordinator's key type; NO_KEY_TYPE if clients cannot look up this coordinator
    deleted_topics: DeletedTopics[RequestT, CoreT] | None = None


AnyRegistration = CoordinatorRegistration[Any, Any]
