"""The topics or partitions to read: `subscribe`, `subscribePattern` or `assign`, as in Spark's Kafka source."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidemill.model.partition import TopicPartition

STRATEGIES = ("assign", "subscribe", "subscribepattern")  # options arrive in lower case


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """A subscription.  Exactly one of the fields is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assignment: tuple[TopicPartition, ...] = ()

    def chosen_topics(self, existing: Iterable[str]) -> tuple[str, ...]:
        """
        Return the subscribed topics.

        `existing` is used only for a pattern, which must match the entire topic name, as in Java's `matches`.
        """
        if self.pattern is not None:
            wanted = re.compile(self.pattern)
            return tuple(sorted(topic for topic in existing if wanted.fullmatch(topic)))
        if self.assignment:
            return tuple(sorted({partition.topic for partition in self.assignment}))
        return self.topics

    def chosen(self, partition: TopicPartition) -> bool:
        """Return whether this partition of a subscribed topic is read."""
        return not self.assignment or partition in self.assignment


def parse(options: Mapping[str, str]) -> Subscription:
    """
    Return the subscription that the options set.

    Raise ValueError, with the message of Spark's own source, unless the options set exactly one kind of subscription.
    """
    given = [strategy for strategy in STRATEGIES if strategy in options]
    if not given:
        raise ValueError(
            "One of the following options must be specified for the Tidemill source: "
            "subscribe, subscribePattern, assign."
        )
    if len(given) > 1:
        raise ValueError(
            "Only one of the following options can be specified for the Tidemill source: "
            f"subscribe, subscribePattern, assign; {' and '.join(given)} are given."
        )
    value = options[given[0]]
    if given[0] == "assign":
        return Subscription(assignment=_assignment(value))
    if given[0] == "subscribe":
        topics = tuple(sorted({topic.strip() for topic in value.split(",") if topic.strip()}))
        if not topics:
            raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
        return Subscription(topics=topics)
    return Subscription(pattern=_pattern(value))


def _pattern(value: str) -> str:
    if not value.strip():
        raise ValueError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'")
    try:
        re.compile(value.strip())
    except re.error as error:
        raise ValueError(f"subscribePattern '{value}' is not a regular expression: {error}") from None
    return value.strip()


def _assignment(value: str) -> tuple[TopicPartition, ...]:
    expected = f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}} for option \'assign\', got {value}'
    try:
        parsed = json.loads(value)
    except ValueError:
        raise ValueError(expected) from None
    if not isinstance(parsed, dict):
        raise ValueError(expected)
    partitions = set()
    for topic, numbers in parsed.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(expected)
        partitions |= {TopicPartition(topic, number) for number in numbers}
    if not partitions:
        raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
    return tuple(sorted(partitions))
