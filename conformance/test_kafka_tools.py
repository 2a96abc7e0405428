"""Kafka's own commands have the right output and exit codes with one broker.

TIDEMILL_TEST_BOOTSTRAP selects another broker; the output against Apache Kafka is the same.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from conformance.kafka_tools import KafkaTools
from tidemill.metadata.feature_levels import NEWEST

SUPPORT = Path(__file__).resolve().parents[1] / "docs" / "protocol" / "support.md"
needs_tidemill = pytest.mark.skipif(
    "TIDEMILL_TEST_BOOTSTRAP" in os.environ, reason="that broker may implement what Tidemill does not"
)


@pytest.fixture
def topic(tools: KafkaTools) -> str:
    """Create a topic with two partitions and return its name."""
    name = f"tools-{uuid.uuid4().hex[:10]}"
    tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "2", "--replication-factor", "1")
    return name


def produce(tools: KafkaTools, topic: str, lines: Sequence[str]) -> None:
    keys = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    tools.run("kafka-console-producer", "--topic", topic, *keys, stdin="".join(f"{line}\n" for line in lines))


def consume(tools: KafkaTools, topic: str, count: int, *more: str) -> list[str]:
    keys = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    wanted = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000")
    return tools.run("kafka-console-consumer", "--topic", topic, *wanted, *keys, *more)


def offsets(tools: KafkaTools, topic: str, *more: str) -> list[str]:
    return tools.run("kafka-get-offsets", "--topic", topic, *more)


def group_rows(printed: Sequence[str]) -> list[list[str]]:
    """Return the cells of each partition's row, without the names of the group and the member."""
    return sorted(line.split()[1:6] for line in printed if not line.startswith(("GROUP", "Consumer group")))


# ---- kafka-topics


def test_topics_are_created_described_grown_and_deleted(tools: KafkaTools) -> None:
    name = f"tools-{uuid.uuid4().hex[:10]}"
    sized = ("--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=60000")

    made = tools.run("kafka-topics", "--create", "--topic", name, *sized)

    described = tools.run("kafka-topics", "--describe", "--topic", name)
    tools.run("kafka-topics", "--alter", "--topic", name, "--partitions", "3")
    grown = tools.run("kafka-topics", "--describe", "--topic", name)
    listed = tools.run("kafka-topics", "--list")
    tools.run("kafka-topics", "--delete", "--topic", name)
    assert [f"Created topic {name}."] == made
    head, *rows = described
    assert re.fullmatch(
        rf"Topic: {name}\tTopicId: \S{{22}}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: \S*retention.ms=60000.*",
        head,
    )
    assert [re.fullmatch(r"\tTopic: \S+\tPartition: (\d)\tLeader: 1\tReplicas: 1\tIsr: 1\b.*", row) for row in rows]
    assert (2, 4, True) == (len(rows), len(grown), name in listed)
    assert name not in tools.run("kafka-topics", "--list")


def test_illegal_topics_are_refused(tools: KafkaTools, topic: str) -> None:
    assert "already exists" in tools.complaint("kafka-topics", "--create", "--topic", topic)
    assert "does not exist" in tools.complaint("kafka-topics", "--describe", "--topic", f"{topic}-nowhere")
    assert "does not exist" in tools.complaint("kafka-topics", "--delete", "--topic", f"{topic}-nowhere")
    assert "has 2 partition" in tools.complaint("kafka-topics", "--alter", "--topic", topic, "--partitions", "1")


# ---- kafka-console-producer and -consumer


def test_what_the_console_producer_sends_the_console_consumer_prints(tools: KafkaTools, topic: str) -> None:
    reader = ("parse.key=true", "key.separator=:", "parse.headers=true", "headers.delimiter=|", "null.marker=NIL")
    properties = [word for each in reader for word in ("--reader-property", each)]
    printer = ("print.headers=true", "print.partition=true", "print.offset=true")
    lines = ["h1:x,h2:y|k:v\n", "h1:x|k:NIL\n", "h:é|k:later\n"]

    tools.run(
        "kafka-console-producer", "--topic", topic, *properties, "--compression-codec", "zstd", stdin="".join(lines)
    )

    printed = consume(tools, topic, 3, *(word for each in printer for word in ("--formatter-property", each)))
    partition = printed[0].split(":")[1]
    assert [
        f"Partition:{partition}:Offset:0:h1:x,h2:y:k:v",
        f"Partition:{partition}:Offset:1:h1:x:k:null",
        f"Partition:{partition}:Offset:2:h:é:k:later",
    ] == printed


# ---- kafka-consumer-groups, kafka-groups


def test_a_group_is_described_reset_and_deleted(tools: KafkaTools, topic: str) -> None:
    group = f"{topic}-group"
    produce(tools, topic, [f"k:{number}" for number in range(5)])
    consume(tools, topic, 5, "--group", group)
    # The key determines the partition, so one partition has all five records.
    (full,) = (line.split(":")[1] for line in offsets(tools, topic) if line.endswith(":5"))
    empty = str(1 - int(full))
    on_topic = ("--group", group, "--topic", topic)

    read = group_rows(tools.run("kafka-consumer-groups", "--describe", "--group", group))
    state = tools.run("kafka-consumer-groups", "--describe", "--group", group, "--state")
    tools.run("kafka-consumer-groups", "--reset-offsets", *on_topic, "--shift-by", "-2", "--execute")
    back = group_rows(tools.run("kafka-consumer-groups", "--describe", "--group", group))
    forgotten = tools.run("kafka-consumer-groups", "--delete-offsets", *on_topic)
    deleted = tools.run("kafka-consumer-groups", "--delete", "--group", group)

    assert sorted([[topic, full, "5", "5", "0"], [topic, empty, "0", "0", "0"]]) == read
    assert sorted([[topic, full, "3", "5", "2"], [topic, empty, "0", "0", "0"]]) == back
    assert ["Empty", "0"] == state[1].split()[-2:]
    assert f"Request succeeded for deleting offsets from group {group}." in forgotten
    assert [f"Deletion of requested consumer groups ('{group}') was successful."] == deleted
    assert f"Group {group} not found" in tools.complaint("kafka-consumer-groups", "--describe", "--group", group)


def test_members_of_other_libraries_are_described(tools: KafkaTools, topic: str) -> None:
    """
    A group with a member of another client library can be described, but neither deleted nor reset while the member is
    in it.
    """
    group = f"{topic}-group"
    member = Consumer({"bootstrap.servers": tools.bootstrap, "group.id": group, "client.id": "other"})
    with closing(member):
        member.subscribe([topic])
        deadline = time.monotonic() + 20
        while len(member.assignment()) < 2:
            assert time.monotonic() < deadline, "no assignment"
            member.poll(0.1)

        described = tools.run("kafka-consumer-groups", "--describe", "--group", group, "--members")
        state = tools.run("kafka-consumer-groups", "--describe", "--group", group, "--state")
        listed = tools.run("kafka-groups", "--list")
        on_topic = ("--group", group, "--topic", topic)
        refused = [
            tools.complaint("kafka-consumer-groups", "--delete", "--group", group),
            " ".join(tools.run("kafka-consumer-groups", "--reset-offsets", *on_topic, "--to-latest", "--execute")),
        ]

    assert [group, "/127.0.0.1", "other", "2"] == [described[1].split()[place] for place in (0, 2, 3, 4)]
    assert ["range", "Stable", "1"] == state[1].split()[-3:]
    assert [group, "Classic", "consumer"] in [line.split() for line in listed]
    assert "The group is not empty" in refused[0]
    assert f"Assignments can only be reset if the group '{group}' is inactive" in refused[1]


# ---- kafka-configs


def test_a_topic_s_configuration_is_set_described_and_reset(tools: KafkaTools, topic: str) -> None:
    about = ("--entity-type", "topics", "--entity-name", topic)

    tools.run("kafka-configs", "--alter", *about, "--add-config", "retention.ms=70000,max.message.bytes=2000000")
    set_to = tools.run("kafka-configs", "--describe", *about)
    tools.run("kafka-configs", "--alter", *about, "--delete-config", "max.message.bytes")
    left = tools.run("kafka-configs", "--describe", *about)

    told = [line.split()[0] for line in set_to[1:]]
    assert {"max.message.bytes=2000000", "retention.ms=70000"} == set(told)
    assert ["retention.ms=70000"] == [line.split()[0] for line in left[1:]]
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=70000" in left[1]
    assert "InvalidConfigurationException" in tools.complaint(
        "kafka-configs", "--alter", *about, "--add-config", "bad=1"
    )
    assert "InvalidConfigurationException" in tools.complaint(
        "kafka-configs", "--alter", *about, "--add-config", "retention.ms=soon"
    )


def test_a_broker_s_configuration_is_changed_while_it_runs(tools: KafkaTools) -> None:
    about = ("--entity-type", "brokers", "--entity-name", "1")

    tools.run("kafka-configs", "--alter", *about, "--add-config", "log.segment.bytes=100000000")
    set_to = tools.run("kafka-configs", "--describe", *about)
    tools.run("kafka-configs", "--alter", *about, "--delete-config", "log.segment.bytes")

    assert "log.segment.bytes=100000000" == set_to[1].split()[0]
    assert "DYNAMIC_BROKER_CONFIG:log.segment.bytes=100000000" in set_to[1]
    assert ["Dynamic configs for broker 1 are:"] == tools.run("kafka-configs", "--describe", *about)


def test_throttles_of_replicas_are_set_described_and_removed(tools: KafkaTools, topic: str) -> None:
    """A broker has a rate, and a topic has the replicas that it counts for, as `partition:broker` or all of them."""
    about_broker = ("--entity-type", "brokers", "--entity-name", "1")
    about_topic = ("--entity-type", "topics", "--entity-name", topic)
    rates = [f"{role}.replication.throttled.rate" for role in ("leader", "follower")]
    replicas = [f"{role}.replication.throttled.replicas" for role in ("leader", "follower")]

    tools.run("kafka-configs", "--alter", *about_broker, "--add-config", f"{rates[0]}=1000000,{rates[1]}=2000000")
    tools.run("kafka-configs", "--alter", *about_topic, "--add-config", f"{replicas[0]}=[0:1,1:1],{replicas[1]}=*")
    of_broker = tools.run("kafka-configs", "--describe", *about_broker)
    of_topic = tools.run("kafka-configs", "--describe", *about_topic)
    tools.run("kafka-configs", "--alter", *about_broker, "--delete-config", ",".join(rates))
    tools.run("kafka-configs", "--alter", *about_topic, "--delete-config", ",".join(replicas))
    left = tools.run("kafka-configs", "--describe", *about_broker)
    negative = tools.complaint("kafka-configs", "--alter", *about_broker, "--add-config", f"{rates[0]}=-1")

    assert {f"{rates[0]}=1000000", f"{rates[1]}=2000000"} == {line.split()[0] for line in of_broker[1:]}
    assert {f"{replicas[0]}=0:1,1:1", f"{replicas[1]}=*"} == {line.split()[0] for line in of_topic[1:]}
    assert ["Dynamic configs for broker 1 are:"] == left
    assert "InvalidConfigurationException" in negative and rates[0] in negative


def test_groups_with_a_configuration_are_found_without_their_name(tools: KafkaTools, topic: str) -> None:
    about = ("--entity-type", "groups")
    named = (*about, "--entity-name", f"{topic}-group")

    tools.run("kafka-configs", "--alter", *named, "--add-config", "consumer.session.timeout.ms=50000")
    told = tools.run("kafka-configs", "--describe", *about)
    tools.run("kafka-configs", "--alter", *named, "--delete-config", "consumer.session.timeout.ms")

    assert f"Dynamic configs for group {topic}-group are:" in told


def test_there_are_no_client_metrics(tools: KafkaTools) -> None:
    assert [] == tools.run("kafka-client-metrics", "--list")


# ---- kafka-log-dirs


def test_log_directories_show_the_size_of_each_partition(tools: KafkaTools, topic: str) -> None:
    tools.run("kafka-console-producer", "--topic", topic, stdin="x" * 10_000 + "\n")

    told = tools.run("kafka-log-dirs", "--describe", "--topic-list", topic)

    (broker,) = json.loads(told[-1])["brokers"]
    (directory,) = broker["logDirs"]
    sizes = [partition["size"] for partition in directory["partitions"]]
    assert (1, None, True) == (broker["broker"], directory["error"], directory["logDir"].startswith("/"))
    assert {f"{topic}-{number}" for number in range(len(sizes))} == {it["partition"] for it in directory["partitions"]}
    assert 10_000 < sum(sizes) < 11_000
    assert {(0, False)} == {(it["offsetLag"], it["isFuture"]) for it in directory["partitions"]}


# ---- offsets


def test_offsets_are_found_by_time_and_moved_by_deleting_records(tools: KafkaTools, topic: str, tmp_path: Path) -> None:
    produce(tools, topic, [f"k:{number}" for number in range(5)])
    (full,) = (line.split(":")[1] for line in offsets(tools, topic) if line.endswith(":5"))
    (largest,) = offsets(tools, topic, "--time", "max-timestamp")  # offset of the first record with it
    wish = tmp_path / "delete.json"
    wish.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": int(full), "offset": 3}]}))

    deleted = tools.run("kafka-delete-records", "--offset-json-file", str(wish))

    assert f"partition: {topic}-{full}\tlow_watermark: 3" in deleted
    assert largest in [f"{topic}:{full}:{offset}" for offset in range(5)]
    place = ("--partitions", full)
    assert [f"{topic}:{full}:3"] == offsets(tools, topic, *place, "--time", "earliest")
    assert [f"{topic}:{full}:5"] == offsets(tools, topic, *place, "--time", "latest")
    assert [f"{topic}:{full}:3"] == offsets(tools, topic, *place, "--time", "earliest-local")
    assert [f"{topic}:{full}:3"] == offsets(tools, topic, *place, "--time", "0")
    assert ["k:3", "k:4"] == consume(tools, topic, 2)


# ---- the cluster


def test_the_metadata_quorum_is_described(tools: KafkaTools) -> None:
    status = dict(line.split(":", 1) for line in tools.run("kafka-metadata-quorum", "describe", "--status"))
    head, *replicas = (line.split("\t") for line in tools.run("kafka-metadata-quorum", "describe", "--replication"))
    (cluster_id,) = tools.run("kafka-cluster", "cluster-id")

    assert ("1", cluster_id.split()[-1]) == (status["LeaderId"].strip(), status["ClusterId"].strip())
    (voter,) = json.loads(status["CurrentVoters"])
    assert (1, []) == (voter["id"], json.loads(status["CurrentObservers"]))
    (leader,) = ({name.strip(): cell.strip() for name, cell in zip(head, row, strict=False)} for row in replicas)
    assert ("1", "0", "Leader") == (leader["NodeId"], leader["Lag"], leader["Status"])
    assert int(leader["LogEndOffset"]) >= int(status["HighWatermark"]) > 0


def test_an_already_elected_leader_is_reported(tools: KafkaTools, topic: str) -> None:
    told = tools.run("kafka-leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")

    assert [f"Valid replica already elected for partitions {topic}-0"] == told


@needs_tidemill
def test_the_versions_are_those_of_the_support_page(tools: KafkaTools) -> None:
    """
    A client of Kafka 4.3 can use exactly the APIs and versions that `docs/protocol/support.md` lists.
    """
    page = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)-(\d+) \|", SUPPORT.read_text(), re.MULTILINE)

    told = tools.run("kafka-broker-api-versions")

    usable = re.findall(r"^\t(\w+)\((\d+)\): (\d+)(?: to (\d+))? \[usable: (\d+)\]", "\n".join(told), re.MULTILINE)
    assert sorted((int(key), name, int(low), int(high)) for key, name, low, high in page) == sorted(
        (int(key), name, int(low), int(high or low)) for name, key, low, high, _ in usable
    )
    assert [] == [name for name, _, low, high, used in usable if used != (high or low)]


# ---- load


def test_the_perf_tests_count_what_was_sent(tools: KafkaTools, topic: str) -> None:
    sized = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")

    sent = tools.run("kafka-producer-perf-test", "--topic", topic, *sized)
    read = tools.run("kafka-consumer-perf-test", "--topic", topic, "--num-records", "5000", "--timeout", "20000")

    assert sent[-1].startswith("5000 records sent")
    assert "5000" == read[-1].split(", ")[4]
    assert 5000 == sum(int(line.rpartition(":")[2]) for line in offsets(tools, topic))


def test_the_verifiable_consumer_finds_what_the_verifiable_producer_sent(tools: KafkaTools, topic: str) -> None:
    until = ("--topic", topic, "--max-messages", "100")

    produced = [json.loads(line) for line in tools.run("kafka-verifiable-producer", *until, "--acks", "-1")]
    group = ("--group-id", f"{topic}-group", "--reset-policy", "earliest")
    consumed = [json.loads(line) for line in tools.run("kafka-verifiable-consumer", *until, *group)]

    acked = [(each["partition"], each["offset"]) for each in produced if each["name"] == "producer_send_success"]
    found = [
        (part["partition"], offset)
        for each in consumed
        if each["name"] == "records_consumed"
        for part in each["partitions"]
        for offset in range(part["minOffset"], part["maxOffset"] + 1)
    ]
    assert 100 == len(acked)
    assert sorted(acked) == sorted(found)
    assert {True} == {each["success"] for each in consumed if each["name"] == "offsets_committed"}


def test_the_end_to_end_latency_test_receives_every_record(tools: KafkaTools, topic: str) -> None:
    told = tools.run(
        "kafka-e2e-latency", "--topic", topic, "--num-records", "20", "--producer-acks", "all", "--record-size", "50"
    )

    assert any(line.startswith("Avg latency:") for line in told)


# ---- kafka-features


@needs_tidemill
def test_the_level_of_the_cluster_is_described_and_raised(tools: KafkaTools) -> None:
    """
    The cluster is at the newest level, to which an upgrade changes nothing.  A dry run says the same.
    """
    upgrade = ("upgrade", "--feature", f"tidemill.level={NEWEST}")

    told = [line.split() for line in tools.run("kafka-features", "describe")]
    upgraded = tools.run("kafka-features", *upgrade)
    tried = tools.run("kafka-features", *upgrade, "--dry-run")

    (level,) = [dict(zip(row[::2], row[1::2], strict=True)) for row in told if row[1] == "tidemill.level"]
    assert ("1", str(NEWEST)) == (level["SupportedMinVersion:"], level["SupportedMaxVersion:"])
    assert str(NEWEST) == level["FinalizedVersionLevel:"]
    assert [f"tidemill.level was upgraded to {NEWEST}."] == upgraded
    assert [f"tidemill.level can be upgraded to {NEWEST}."] == tried


@needs_tidemill
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("upgrade", "--feature", f"tidemill.level={NEWEST + 1}"), f"broker 1 supports up to {NEWEST}: upgrade"),
        (("downgrade", "--feature", "tidemill.level=1"), "which is never lowered"),
        (("downgrade", "--unsafe", "--feature", "tidemill.level=1"), "which is never lowered"),
        (("disable", "--feature", "tidemill.level"), "which is never lowered"),
        (("upgrade", "--metadata", "4.0"), "feature metadata.version is unknown; the features are tidemill.level"),
    ],
)
def test_a_level_that_is_not_possible_is_refused_with_the_reason(
    tools: KafkaTools, command: tuple[str, ...], says: str
) -> None:
    assert says in tools.complaint("kafka-features", *command)


# ---- kafka-cluster unregister


@needs_tidemill
@pytest.mark.parametrize(
    ("broker_id", "says"), [("1", "unregistering broker 1 is refused: it is live"), ("9", "broker 9 is not in")]
)
def test_a_broker_that_is_live_or_unknown_is_not_unregistered(tools: KafkaTools, broker_id: str, says: str) -> None:
    assert says in tools.complaint("kafka-cluster", "unregister", "--id", broker_id)


# ---- unsupported features


@needs_tidemill
def test_commands_for_controllers_are_sent_to_brokers(tools: KafkaTools) -> None:
    """Kafka's separate controllers have commands and listeners of their own, which brokers refuse."""
    complaint = replace(tools, option="--bootstrap-controller").complaint("kafka-cluster", "cluster-id")

    assert "there are no separate controllers: use --bootstrap-server" in complaint


@needs_tidemill
@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("kafka-acls", "--list"), "DESCRIBE_ACLS"),
        (("kafka-configs", "--describe", "--entity-type", "users"), "DESCRIBE_CLIENT_QUOTAS"),
        (("kafka-transactions", "list"), "LIST_TRANSACTIONS"),
    ],
    ids=lambda it: it[0] if isinstance(it, tuple) else "",
)
def test_an_unsupported_command_names_what_is_missing(
    tools: KafkaTools, command: tuple[str, ...], missing: str
) -> None:
    """
    An unsupported command fails immediately and names the missing API, instead of retrying until a timeout.
    """
    assert f"The node does not support {missing}" in tools.complaint(*command)
