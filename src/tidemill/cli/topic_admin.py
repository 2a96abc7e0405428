"""Requests about topics, made through confluent-kafka's admin client, for the commands that need them."""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Node, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from tidemill.cli.deadline import Deadline
from tidemill.cli.failure import Failed
from tidemill.cli.kafka import REQUEST_TIMEOUT_S, awaited, client_config, failed
from tidemill.cli.output import counted
from tidemill.cli.refusal import refusal
from tidemill.model.topic_kind import KIND

DESCRIBED_AT_ONCE_MAX: Final = 500  # topics per request; bounds the size of a response
VISIBLE_WAIT_S: Final = 5.0  # a broker may learn of a new topic slightly later than the controller
BROKER_DECIDES: Final = -1
T = TypeVar("T")
Partition = tuple[str, int]
"""Topic and partition number.  confluent-kafka's TopicPartition also has an offset and other fields."""


class TopicAdmin:
    """Requests about topics.  Every method raises `Failed` if the broker refuses or does not respond."""

    def __init__(self, bootstrap: str, deadline: Deadline | None = None) -> None:
        """Connect.  Each request takes at most REQUEST_TIMEOUT_S and ends by the deadline."""
        self._bootstrap = bootstrap
        self._deadline = deadline or Deadline()
        self.client = AdminClient(client_config(bootstrap, self._deadline))

    def _timeout_s(self) -> float:
        return self._deadline.bounded(REQUEST_TIMEOUT_S)

    def _awaited(self, future: "Future[T]", about: str) -> T:
        return awaited(future, about, self._bootstrap, self._timeout_s())

    def create(
        self, name: str, partitions: int | None, replication_factor: int | None, configs: dict[str, str]
    ) -> None:
        topic = NewTopic(name, partitions or BROKER_DECIDES, replication_factor or BROKER_DECIDES, config=configs)
        futures = self.client.create_topics([topic], request_timeout=self._timeout_s())
        self._awaited(futures[name], f"topic {name!r}")

    def row_of_new(self, name: str) -> dict[str, Any]:
        """Wait until the broker knows the new topic, and return the topic's row."""
        return _row(self._new(name))

    def leader_nodes_of_new(self, name: str) -> dict[int, Node | None]:
        """Wait until the broker knows the new topic, and return what `leader_nodes_of` returns."""
        return _leader_nodes(self._new(name))

    def _new(self, name: str) -> Any:
        deadline = time.monotonic() + self._deadline.bounded(VISIBLE_WAIT_S)
        while True:
            described = self._described([name], missing_is_failure=time.monotonic() > deadline)
            if described:
                return described[0]
            time.sleep(0.05)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of `topics list`, for every topic, ordered by name."""
        try:
            names = sorted(self.client.list_topics(timeout=self._timeout_s()).topics)
        except KafkaException as exception:
            raise failed(exception.args[0], "topics", self._bootstrap) from exception
        return [row for page in _pages(names) for row in self.rows_of(page, missing_is_failure=False)]

    def rows_of(self, names: list[str], *, missing_is_failure: bool) -> list[dict[str, Any]]:
        """Return the rows of `topics list` for `names`.

        A topic that does not exist raises `Failed` if `missing_is_failure`, and is skipped otherwise.
        """
        return [_row(description) for description in self._described(names, missing_is_failure=missing_is_failure)]

    def descriptions_of(self, names: list[str], *, with_defaults: bool) -> list[dict[str, Any]]:
        """Return the objects that `topics describe` prints: rows with kind, configuration and a list of partitions.

        Without `with_defaults`, the configuration contains only the keys whose value is not the default.  The kind is
        None on Apache Kafka.
        """
        descriptions = self._described(list(dict.fromkeys(names)), missing_is_failure=True)
        return [self._description(it, with_defaults=with_defaults) for it in descriptions]

    def _description(self, description: Any, *, with_defaults: bool) -> dict[str, Any]:
        entries = self._configs_of(description.name)
        return _row(description) | {
            "kind": _kind(entries),
            "configs": {
                key: entry.value for key, entry in sorted(entries.items()) if with_defaults or not entry.is_default
            },
            "partitions": self._partitions(description),
        }

    def kind_of(self, name: str) -> str | None:
        """Return the kind of a topic; None on Apache Kafka."""
        return _kind(self._configs_of(name))

    def alter_configs(self, name: str, configs: dict[str, str], deletions: list[str]) -> None:
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in configs.items()
        ] + [ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE) for key in deletions]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        futures = self.client.incremental_alter_configs([resource], request_timeout=self._timeout_s())
        self._awaited(futures[resource], f"topic {name!r}")

    def grow(self, name: str, partitions: int) -> None:
        futures = self.client.create_partitions([NewPartitions(name, partitions)], request_timeout=self._timeout_s())
        self._awaited(futures[name], f"topic {name!r}, --partitions {partitions}")

    def delete(self, name: str) -> None:
        futures = self.client.delete_topics([name], request_timeout=self._timeout_s())
        self._awaited(futures[name], f"topic {name!r}")

    def partitions_of(self, name: str) -> list[int]:
        return list(self.leaders_of(name))

    def leaders_of(self, name: str) -> dict[int, int | None]:
        """Return the broker id of each partition's leader, or None for a partition without a leader."""
        return {partition: it.id if it is not None else None for partition, it in self.leader_nodes_of(name).items()}

    def leader_nodes_of(self, name: str) -> dict[int, Node | None]:
        """Return the id, host and port of each partition's leader, or None for a partition without a leader."""
        (description,) = self._described([name], missing_is_failure=True)
        return _leader_nodes(description)

    def offsets_of(self, name: str, partitions: Sequence[int], spec: OffsetSpec) -> dict[int, int]:
        """Return the offset of each partition; it is -1 if no record is at or after the timestamp in `spec`."""
        listed = self._listed([(name, partition) for partition in partitions], spec)
        return {partition: result.offset for (_, partition), result in listed.items()}

    def end_offsets(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the end offset of each partition that exists and has a leader."""
        names = sorted({name for name, _ in partitions})
        led = [
            (description.name, partition.id)
            for page in _pages(names)
            for description in self._described(page, missing_is_failure=False)
            for partition in description.partitions
            if partition.leader is not None and (description.name, partition.id) in partitions
        ]
        return {partition: result.offset for partition, result in self._listed(led, OffsetSpec.latest()).items()}

    def _described(self, names: list[str], *, missing_is_failure: bool) -> list[Any]:
        if not names:
            return []
        if "" in names:  # confluent-kafka would raise ValueError for an empty name
            raise refusal("INVALID_TOPIC_EXCEPTION", "topic ''", "the name is empty")
        try:
            futures = self.client.describe_topics(TopicCollection(names), request_timeout=self._timeout_s())
        except KafkaException as exception:
            raise failed(exception.args[0], f"topic {names[0]!r}", self._bootstrap) from exception
        descriptions = []
        for name in names:
            try:
                descriptions.append(self._awaited(futures[name], f"topic {name!r}"))
            except Failed as failure:
                error = failure.__cause__
                missing = isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
                if missing_is_failure or not missing:
                    raise
        return descriptions

    def _configs_of(self, name: str) -> dict[str, Any]:
        resource = ConfigResource(ResourceType.TOPIC, name)
        futures = self.client.describe_configs([resource], request_timeout=self._timeout_s())
        entries: dict[str, Any] = self._awaited(futures[resource], f"configurations of topic {name!r}")
        return entries

    def _partitions(self, description: Any) -> list[dict[str, Any]]:
        name = description.name
        led = [(name, partition.id) for partition in description.partitions if partition.leader is not None]
        starts = self._listed(led, OffsetSpec.earliest())
        ends = self._listed(led, OffsetSpec.latest())
        rows = []
        for partition in sorted(description.partitions, key=lambda partition: partition.id):
            start, end = starts.get((name, partition.id)), ends.get((name, partition.id))
            rows.append(
                {
                    "partition": partition.id,
                    "leader": partition.leader.id if partition.leader is not None else None,
                    "replicas": [replica.id for replica in partition.replicas],
                    "in_sync": [replica.id for replica in partition.isr],
                    "epoch": end.leader_epoch if end else None,
                    "log_start": start.offset if start else None,
                    "end_offset": end.offset if end else None,
                }
            )
        return rows

    def _listed(self, partitions: Sequence[Partition], spec: OffsetSpec) -> dict[Partition, ListOffsetsResultInfo]:
        if not partitions:
            return {}
        futures = self.client.list_offsets(
            {TopicPartition(name, partition): spec for name, partition in partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=self._timeout_s(),
        )
        return {
            (asked.topic, asked.partition): self._awaited(future, f"offsets of {asked.topic}-{asked.partition}")
            for asked, future in futures.items()
        }


def _kind(entries: dict[str, Any]) -> str | None:
    return entries[KIND].value if KIND in entries else None


def _leader_nodes(description: Any) -> dict[int, Node | None]:
    return {it.id: it.leader for it in description.partitions}


def check_partition(topic: str, partition: int, existing: Collection[int]) -> None:
    """Raise `Failed` unless the topic has the partition."""
    if partition not in existing:
        reason = f"it does not exist; the topic has {counted(len(existing), 'partition')}, counted from 0"
        raise refusal("UNKNOWN_PARTITION", f"partition {partition} of topic {topic!r}", reason)


def _pages(names: Sequence[str]) -> list[list[str]]:
    return [list(names[at : at + DESCRIBED_AT_ONCE_MAX]) for at in range(0, len(names), DESCRIBED_AT_ONCE_MAX)]


def _row(description: Any) -> dict[str, Any]:
    return {
        "topic": description.name,
        "topic_id": _url_safe(str(description.topic_id)),
        "partitions": len(description.partitions),
        "replication_factor": len(description.partitions[0].replicas) if description.partitions else 0,
        "internal": description.is_internal,
    }


def _url_safe(topic_id: str) -> str:
    """Convert librdkafka's text form of a topic id (base64) to Kafka's (URL-safe base64)."""
    return topic_id.replace("+", "-").replace("/", "_")
