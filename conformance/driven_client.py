"""
Adapts a client library in another language to the client contract by a driver process in that language.

A request is a line of JSON on its stdin, a response a line on its stdout; `java/ClientDriver.java` has their format.
"""

import base64
import json
import selectors
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.integration.clients.client_port import (
    SESSION_MS,
    WAIT_SECONDS_MAX,
    Acknowledgement,
    Consuming,
    Delivered,
    GroupDescription,
    Outgoing,
    Producing,
    Record,
    Refused,
    Sharing,
    TopicPartition,
    ask_again,
)


class Driver:
    """The process that runs the library.  It exits together with this process."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        patience_ms = str(int(WAIT_SECONDS_MAX * 1_000))
        self._process = subprocess.Popen(
            [*command, bootstrap, patience_ms], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1
        )

    def ask(self, do: str, **arguments: object) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(3 * WAIT_SECONDS_MAX), f"the driver does not answer {do!r}"
        line = self._process.stdout.readline()
        assert line, f"the driver exited during {do!r}"
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["code"], answer["error"])
        return answer["answer"]

    def ask_again(self, do: str, **arguments: object) -> Any:
        """Send a request to the driver, and repeat it while a leader or coordinator moves: libraries leave this to the
        application.
        """
        return ask_again(lambda: self.ask(do, **arguments))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class DrivenProducer:
    def __init__(self, driver: Driver, options: Mapping[str, object]) -> None:
        self._driver = driver
        self._number = driver.ask("producer", options=options)

    def send(self, topic: str, records: Sequence[Outgoing]) -> list[tuple[int, int]]:
        rows = [
            {
                "key": _text(record.key),
                "value": _text(record.value),
                "partition": record.partition,
                "timestamp": record.timestamp,
                "headers": [[key, _text(value)] for key, value in record.headers],
            }
            for record in records
        ]
        places = self._driver.ask("send", on=self._number, topic=topic, records=rows)
        return [(partition, offset) for partition, offset in places]

    def close(self) -> None:
        self._driver.ask("close producer", on=self._number)


class DrivenConsumer:
    def __init__(self, driver: Driver, options: Mapping[str, object]) -> None:
        self._driver = driver
        self._number = driver.ask("consumer", options=options)

    def subscribe(self, topics: Sequence[str]) -> None:
        self._ask("subscribe", topics=list(topics))

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._ask("assign", offsets=_rows(offsets))

    def assignment(self) -> set[TopicPartition]:
        return {(topic, partition) for topic, partition in self._ask("assignment")}

    def poll(self, seconds: float) -> list[Record]:
        return [_record(row) for row in self._ask("poll", ms=int(seconds * 1_000))]

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._ask("seek", offsets=_rows({place: offset}))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._ask_again("commit", offsets=_rows(offsets))

    def committed(self, place: TopicPartition) -> int | None:
        offset: int | None = self._ask_again("committed", topic=place[0], partition=place[1])
        return offset

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        rows = self._ask_again("offsets for times", timestamps=_rows(timestamps))
        return {(topic, partition): offset for topic, partition, offset in rows}

    def bounds(self, place: TopicPartition) -> tuple[int, int]:
        low, high = self._ask_again("bounds", topic=place[0], partition=place[1])
        return low, high

    def close(self) -> None:
        self._ask("close consumer")

    def _ask(self, do: str, **arguments: object) -> Any:
        return self._driver.ask(do, on=self._number, **arguments)

    def _ask_again(self, do: str, **arguments: object) -> Any:
        return self._driver.ask_again(do, on=self._number, **arguments)


class DrivenShareConsumer:
    def __init__(self, driver: Driver, group: str, topic: str) -> None:
        self._driver = driver
        self._number = driver.ask("share consumer", group=group, topic=topic)

    def poll(self, seconds: float) -> list[Delivered]:
        rows = self._driver.ask("share", on=self._number, ms=int(seconds * 1_000))
        return [
            Delivered(place=(topic, partition), offset=offset, value=_data(value), delivery_count=count)
            for topic, partition, offset, value, count in rows
        ]

    def acknowledge(self, decided: Sequence[tuple[Delivered, Acknowledgement]]) -> None:
        rows = [[*record.place, record.offset, kind.name] for record, kind in decided]
        self._driver.ask("share", on=self._number, acknowledgements=rows)

    def close(self) -> None:
        self._driver.ask("close share consumer", on=self._number)


class Reassigning(NamedTuple):
    """The brokers of a partition whose replicas are on their way."""

    replicas: list[int]  # those that it is to have, and those that are to go
    adding: list[int]
    removing: list[int]


class DrivenClient:
    """A client that uses a driver process.  Each library has a subclass with a name and a command."""

    name: str

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._driver = Driver(self.command(), bootstrap)

    @staticmethod
    def command() -> Sequence[str]:
        """Return the command that starts the driver; raise `Unavailable` if something that it needs is missing."""
        raise NotImplementedError

    def producer(
        self,
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
        request_bytes_max: int = 1_000_000,
        request_timeout_ms: int = 10_000,
    ) -> Producing:
        options = {
            "acks": acks,
            "compression": compression,
            "idempotent": idempotent,
            "request_bytes_max": request_bytes_max,
            "request_timeout_ms": request_timeout_ms,
        }
        return DrivenProducer(self._driver, options)

    def consumer(
        self,
        group: str | None = None,
        *,
        reset: str = "earliest",
        instance_id: str | None = None,
        fetch_bytes_max: int = 1_000_000,
    ) -> Consuming:
        options = {
            "group": group,
            "reset": reset,
            "instance_id": instance_id,
            "fetch_bytes_max": fetch_bytes_max,
            "session_ms": SESSION_MS,
        }
        return DrivenConsumer(self._driver, options)

    def share_consumer(self, group: str, topic: str) -> Sharing:
        return DrivenShareConsumer(self._driver, group, topic)

    def alter_group_config(self, group: str, key: str, value: str) -> None:
        self._driver.ask_again("alter group config", name=group, key=key, value=value)

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], *, replicas: int = 1) -> None:
        self._driver.ask_again(
            "create topic", name=name, partitions=partitions, replicas=replicas, configs=dict(configs)
        )

    def delete_topic(self, name: str) -> None:
        self._driver.ask_again("delete topic", name=name)

    def create_partitions(self, name: str, total: int) -> None:
        self._driver.ask_again("create partitions", name=name, total=total)

    def topics(self) -> dict[str, int]:
        return dict(self._driver.ask_again("topics"))

    def topic_configs(self, name: str) -> dict[str, str]:
        return dict(self._driver.ask_again("topic configs", name=name))

    def broker_configs(self) -> dict[str, str]:
        return dict(self._driver.ask_again("broker configs"))

    def alter_topic_config(self, name: str, key: str, value: str) -> None:
        self._driver.ask_again("alter topic config", name=name, key=key, value=value)

    def delete_records(self, place: TopicPartition, before: int) -> None:
        self._driver.ask_again("delete records", topic=place[0], partition=place[1], before=before)

    def groups(self) -> set[str]:
        return set(self._driver.ask_again("groups"))

    def describe_group(self, group: str) -> GroupDescription:
        state, member_count = self._driver.ask_again("describe group", name=group)
        return GroupDescription(state=state.lower(), member_count=member_count)

    def delete_group(self, group: str) -> None:
        self._driver.ask_again("delete group", name=group)

    # What only these libraries can do, so it is not part of the client contract.

    def replicas(self, topic: str) -> list[list[int]]:
        """Return the brokers of each partition, the preferred leader first."""
        return list(self._driver.ask_again("replicas", name=topic))

    def reassign(
        self, topic: str, goals: Mapping[int, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> None:
        """Move partitions to the brokers of `goals`.  None instead of brokers cancels what is under way."""
        rows = [(partition, brokers if brokers is None else list(brokers)) for partition, brokers in goals.items()]
        self._driver.ask_again("reassign", name=topic, goals=rows, may_change_factor=may_change_factor)

    def reassigning(self, topic: str) -> dict[int, Reassigning]:
        """Return the partitions of a topic whose replicas are on their way."""
        rows = self._driver.ask_again("reassigning", name=topic)
        return {partition: Reassigning(*brokers) for name, partition, *brokers in rows if name == topic}

    def close(self) -> None:
        self._driver.close()


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _rows(numbers: Mapping[TopicPartition, int]) -> list[tuple[str, int, int]]:
    return [(topic, partition, number) for (topic, partition), number in numbers.items()]


def _record(row: Sequence[Any]) -> Record:
    topic, partition, offset, timestamp, key, value, headers = row
    return Record(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp=timestamp,
        key=_data(key),
        value=_data(value),
        headers=tuple((name, _data(data)) for name, data in headers),
    )
