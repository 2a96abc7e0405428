"""Finds the partition to which a dead letter is written, and creates missing dead-letter topics if it may."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidemill.broker.controller.topic_creation import TopicCreation
from tidemill.broker.coordinators.share_group_configs import ShareGroupConfigs
from tidemill.broker.shares.led_share import ShareKey
from tidemill.metadata.image import ClusterImage, Topic
from tidemill.metadata.topic_configs import TopicConfigs
from tidemill.model import errors
from tidemill.model.clock import Clock
from tidemill.model.config_resolution import BrokerLayers, broker_flag, broker_value
from tidemill.model.dead_letters import is_redrive, redrive_topic
from tidemill.model.internal_topics import is_internal
from tidemill.model.share_group_config import DEAD_LETTER_FAILURE, DEAD_LETTER_TOPIC
from tidemill.share.dead_letter import SentFrom
from tidemill.share.letters import Target

ENABLE: Final = "errors.deadletterqueue.group.enable"
AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
NAME_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
AGAIN_MS: Final = 5_000  # between two attempts to create a topic


class NoTarget(NamedTuple):
    """Dead letters cannot be written now."""

    problem: str  # with the fix


class Cycle(NamedTuple):
    """The target is the topic with the dead record, which would be delivered to the same group again."""


@dataclass(slots=True)
class _Creation:
    """The last attempt to create a topic."""

    began_ms: int
    error_code: int = errors.NONE


class LetterTargets:
    def __init__(
        self,
        image: Callable[[], ClusterImage],
        layers: Callable[[], BrokerLayers],
        topic_configs: TopicConfigs,
        group_configs: ShareGroupConfigs,
        creation: TopicCreation,
        clock: Clock,
    ) -> None:
        self._image = image
        self._layers = layers
        self._topic_configs = topic_configs
        self._group_configs = group_configs
        self._creation = creation
        self._clock = clock
        self._creations: dict[str, _Creation] = {}  # by topic

    def of(self, source: ShareKey, sent_from: SentFrom | None = None) -> Target | NoTarget | Cycle:
        """
        Return the target of the dead records of a share.  For a group that sends dead letters back, `sent_from` is
        where the letter came from; it is not used if the group names a topic.
        """
        image = self._image()
        if is_redrive(source.group):
            named = redrive_topic(source.group)
            if named is not None:
                return _target(image, source, named, source.partition)
            assert sent_from is not None, "without a topic of the group, the letter names one"
            return _target(image, source, sent_from.topic, sent_from.partition)
        name = self._group_configs.of(source.group).dead_letter_topic
        if not name:
            return NoTarget(
                f"{DEAD_LETTER_TOPIC} is not set for the group: set it; or set {DEAD_LETTER_FAILURE}=drop to archive "
                "these records"
            )
        topic = image.topic(name)
        if topic is None:
            return NoTarget(self._missing(name))
        self._creations.pop(name, None)
        if topic.topic_id != source.topic_id and not self._topic_configs.of(image, name).takes_dead_letters:
            return NoTarget(f"topic {name} does not take dead letters: set {ENABLE}=true on it")
        return _target(image, source, name, source.partition)

    def _missing(self, name: str) -> str:
        """Begin to create a missing topic if that is permitted, and return what is wrong meanwhile."""
        layers = self._layers()
        prefix = str(broker_value(layers, NAME_PREFIX) or "")
        if not broker_flag(layers, AUTO_CREATE) or not name.startswith(prefix):
            return (
                f"topic {name} does not exist: create it with {ENABLE}=true; or set {AUTO_CREATE}=true, which creates "
                f"topics whose names begin with {prefix!r}"
            )
        known = self._creations.get(name)
        now_ms = self._clock.monotonic_ms()
        if known is None or now_ms >= known.began_ms + AGAIN_MS:
            began = self._creations[name] = _Creation(now_ms)

            def created(problems: Mapping[str, int]) -> None:
                began.error_code = problems.get(name, errors.NONE)

            self._creation.create([name], created, {ENABLE: "true"})
            known = began if known is None else known
        if known.error_code:
            return f"topic {name} cannot be created ({errors.name(known.error_code)}): create it with {ENABLE}=true"
        return f"topic {name} is being created"


def _target(image: ClusterImage, source: ShareKey, name: str, partition: int) -> Target | NoTarget | Cycle:
    topic: Topic | None = image.topic(name)
    if is_internal(name):
        return NoTarget(f"topic {name} is internal: send the records to another one, tidemill dlq redrive --to TOPIC")
    if topic is None:
        return NoTarget(
            f"topic {name} does not exist: create it, or choose another one, tidemill dlq redrive --to TOPIC"
        )
    if topic.topic_id == source.topic_id:
        return Cycle()
    return Target(topic.topic_id, partition % topic.partition_count)
