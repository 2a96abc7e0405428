"""Kafka's own commands and clients move replicas between four brokers, and show, elect and remove brokers.

The brokers move nothing by themselves here, except where a test says so.
"""

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.broker import Unavailable
from conformance.driven_client import DrivenClient, Reassigning
from conformance.franz_client import FranzClient
from conformance.java_client import JavaClient
from conformance.kafka_tools import KafkaTools, reassignment_file
from tests.fault.cluster_processes import ClusterProcesses, wait_until
from tests.integration.clients.client_port import Refused
from tidemill.model import errors

BROKERS = (1, 2, 3, 4)
VOTERS = 3  # of the metadata
COMMANDS_SECONDS_MAX = 60.0  # until a condition holds that commands look at, each of which takes seconds
RECORDS, RECORD_BYTES = 12_000, 1_000  # more than is sent at once, so that a throttle holds a copy up
SLOW, FAST = 50_000, 100_000_000  # bytes a second
RATE = "leader.replication.throttled.rate"
SETTINGS: dict[str, str | int] = {
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": 3,
    "tidemill.load.report.ms": 500,
    "tidemill.rebalance.enable": "false",
}

Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def four_brokers(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("four"), numbers=BROKERS, settings=SETTINGS) as cluster:
        started(cluster)
        yield cluster


@pytest.fixture
def cluster(four_brokers: ClusterProcesses) -> ClusterProcesses:
    """Return the four brokers, all of them running, whatever the previous test has left."""
    four_brokers.recover()
    return four_brokers


@pytest.fixture
def tools(cluster: ClusterProcesses) -> KafkaTools:
    return KafkaTools(cluster.bootstrap)


@pytest.fixture
def name() -> str:
    return f"moved-{uuid.uuid4().hex[:10]}"


def started(cluster: ClusterProcesses) -> None:
    """Start broker 4 after the others, which are the voters of the metadata then."""
    cluster.start(*BROKERS[:VOTERS])
    wait_until(lambda: len(cluster.voters()) == VOTERS, "three voters of the metadata")
    cluster.start(*BROKERS[VOTERS:])


def create(tools: KafkaTools, name: str, assignment: str, *more: str) -> None:
    tools.run("kafka-topics", "--create", "--topic", name, "--replica-assignment", assignment, *more)


def fill(tools: KafkaTools, name: str) -> None:
    """Send so many records that a slow copy does not end."""
    size = ("--num-records", str(RECORDS), "--record-size", str(RECORD_BYTES), "--throughput", "-1")
    tools.run("kafka-producer-perf-test", "--topic", name, *size)


def partitions(tools: KafkaTools, name: str, *more: str) -> Rows:
    """
    Return the cells of each partition's row by the names that they are printed with; without `more` options, as soon as
    each has a leader.  One that is not among the replicas of a goal makes way, and without it, none is in sync.
    """
    found: Rows = []

    def are_led() -> bool:
        printed = tools.run("kafka-topics", "--describe", "--topic", name, *more)
        rows = [[cell.partition(":") for cell in line.split("\t")] for line in printed if line.startswith("\t")]
        found[:] = [{key.strip(): value.strip() for key, _, value in row if key} for row in rows]
        return bool(more) or all(row["Leader"] != "none" for row in found)

    wait_until(are_led, f"all partitions of {name} are led", seconds_max=COMMANDS_SECONDS_MAX)
    return found


def replicas(rows: Rows) -> list[list[int]]:
    return [[int(broker) for broker in row["Replicas"].split(",")] for row in rows]


def in_sync(rows: Rows) -> list[list[int]]:
    return [sorted(int(broker) for broker in row["Isr"].split(",") if broker) for row in rows]


def goals_of(assignment: str) -> dict[int, list[int]]:
    """Return the brokers of each partition in the JSON that a command has printed."""
    return {it["partition"]: it["replicas"] for it in json.loads(assignment)["partitions"]}


def brokers_with_files(tools: KafkaTools, name: str) -> list[int]:
    described = json.loads(tools.run("kafka-log-dirs", "--describe", "--topic-list", name)[-1])
    return sorted(it["broker"] for it in described["brokers"] if any(each["partitions"] for each in it["logDirs"]))


def throttled(tools: KafkaTools, name: str) -> set[str]:
    """Return the throttles of brokers and of a topic, without their values."""
    told = [
        *tools.run("kafka-configs", "--describe", "--entity-type", "brokers"),
        *tools.run("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", name),
    ]
    return {*re.findall(r"^ *((?:leader|follower)\.replication\.throttled\.\w+)=", "\n".join(told), re.MULTILINE)}


def reassign(tools: KafkaTools, *arguments: str) -> list[str]:
    return tools.run("kafka-reassign-partitions", *arguments)


def wait_until_complete(tools: KafkaTools, file: Sequence[str]) -> list[str]:
    """Verify a reassignment until all of it is completed, and return what the last command has printed."""
    told: list[str] = []

    def is_complete() -> bool:
        told[:] = reassign(tools, *file, "--verify")
        states = [line for line in told if "eassignment of partition " in line]
        assert states and not any("no active reassignment" in line for line in states), told
        return all(line.endswith("is completed.") for line in states)

    wait_until(is_complete, "the replicas have moved", seconds_max=COMMANDS_SECONDS_MAX)
    return told


# ---- kafka-reassign-partitions


def test_a_generated_plan_empties_a_broker_and_is_rolled_back(tools: KafkaTools, name: str, tmp_path: Path) -> None:
    """
    Four partitions on four brokers are a shard each, so each of them can go where Kafka's plan says.  What the command
    prints for the way back brings them back; it names the directory of each replica, too.
    """
    tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "4", "--replication-factor", "3")
    before = replicas(partitions(tools, name))
    chosen = tmp_path / "topics"
    chosen.write_text(json.dumps({"version": 1, "topics": [{"topic": name}]}))

    generated = reassign(tools, "--generate", "--topics-to-move-json-file", str(chosen), "--broker-list", "1,2,3")

    current, proposed = (goals_of(line) for line in generated if line.startswith("{"))
    there = reassignment_file(tmp_path / "there", name, proposed)
    executed = reassign(tools, *there, "--execute")
    wait_until_complete(tools, there)
    assert dict(enumerate(before)) == current
    assert {1, 2, 3} == {broker for goal in proposed.values() for broker in goal}
    assert current == next(goals_of(line) for line in executed if line.startswith("{"))
    wait_until(lambda: brokers_with_files(tools, name) == [1, 2, 3], "the files of broker 4 are gone")
    saved = tmp_path / "saved"
    saved.write_text(next(line for line in executed if line.startswith("{")))
    back = ("--reassignment-json-file", str(saved))
    told = reassign(tools, *back, "--execute")
    assert 12 == sum(line.startswith("Successfully started moving log directory") for line in told)
    told = wait_until_complete(tools, back)
    assert 12 == sum(line.startswith("Reassignment of replica") for line in told)
    assert before == replicas(partitions(tools, name))


def test_a_throttled_move_is_listed_and_sped_up(tools: KafkaTools, name: str, tmp_path: Path) -> None:
    """
    A move that a throttle holds up is shown by all commands.  Submitting it again with a higher throttle speeds it up,
    and verifying removes the throttle.
    """
    create(tools, name, "1:2:3")
    fill(tools, name)
    file = reassignment_file(tmp_path / "plan", name, {0: [4, 2, 3]})
    execute = (*file, "--execute", "--throttle")

    reassign(tools, *execute, str(SLOW))

    listed = reassign(tools, "--list")
    verified = reassign(tools, *file, "--verify")
    (row,) = partitions(tools, name)
    under_replicated = partitions(tools, name, "--under-replicated-partitions")
    refused = tools.complaint("kafka-reassign-partitions", *execute, str(FAST))
    reassign(tools, *execute, str(FAST), "--additional")
    completed = wait_until_complete(tools, file)
    assert ["Current partition reassignments:", f"{name}-0: replicas: 4,2,3,1. adding: 4. removing: 1."] == listed
    assert f"Reassignment of partition {name}-0 is still in progress." in verified
    assert ("4", "1") == (row["Adding Replicas"], row["Removing Replicas"])
    assert ([[4, 2, 3, 1]], [[1, 2, 3]], []) == (replicas([row]), in_sync([row]), under_replicated)
    assert "Cannot execute because there is an existing partition assignment." in refused
    assert "Clearing broker-level throttles on brokers 1,2,3,4" in completed
    assert f"Clearing topic-level throttles on topic {name}" in completed
    assert set() == throttled(tools, name)
    (row,) = partitions(tools, name)
    assert ([[4, 2, 3]], [[2, 3, 4]]) == (replicas([row]), in_sync([row]))
    assert "Adding Replicas" not in row
    assert ["No partition reassignments found."] == reassign(tools, "--list")


def test_a_cancelled_move_goes_back(tools: KafkaTools, name: str, tmp_path: Path) -> None:
    """The throttles are kept if the command says so, and every record is still there."""
    create(tools, name, "1:2:3")
    fill(tools, name)
    file = reassignment_file(tmp_path / "plan", name, {0: [4, 2, 3]})
    reassign(tools, *file, "--execute", "--throttle", str(SLOW))

    cancelled = reassign(tools, *file, "--cancel", "--preserve-throttles")

    kept = throttled(tools, name)
    again = reassign(tools, *file, "--cancel")
    assert f"Successfully cancelled partition reassignment for: {name}-0" == cancelled[0]
    assert RATE in kept
    assert "None of the specified partition reassignments are active." == again[0]
    assert ["No partition reassignments found."] == reassign(tools, "--list")
    wait_until(lambda: brokers_with_files(tools, name) == [1, 2, 3], "the files of broker 4 are gone")
    rows = partitions(tools, name)
    assert ([[1, 2, 3]], [[1, 2, 3]]) == (replicas(rows), in_sync(rows))
    assert [f"{name}:0:{RECORDS}"] == tools.run("kafka-get-offsets", "--topic", name)
    assert set() == throttled(tools, name)


def test_the_number_of_replicas_changes(tools: KafkaTools, name: str, tmp_path: Path) -> None:
    """All partitions of a topic get more replicas, unless the command forbids that, and fewer on other brokers."""
    create(tools, name, "1:2,1:2")
    more = reassignment_file(tmp_path / "more", name, {0: [1, 2, 3], 1: [1, 2, 3]})
    fewer = reassignment_file(tmp_path / "fewer", name, {0: [4, 3], 1: [4, 3]})

    refused = tools.complaint("kafka-reassign-partitions", *more, "--execute", "--disallow-replication-factor-change")
    reassign(tools, *more, "--execute")
    wait_until_complete(tools, more)

    three = partitions(tools, name)
    reassign(tools, *fewer, "--execute")
    wait_until_complete(tools, fewer)
    two = partitions(tools, name)
    assert "must keep the number of replicas, 2: the request forbids another one" in refused
    assert ([[1, 2, 3]] * 2, [[1, 2, 3]] * 2) == (replicas(three), in_sync(three))
    assert ([[4, 3]] * 2, [[3, 4]] * 2) == (replicas(two), in_sync(two))
    wait_until(lambda: brokers_with_files(tools, name) == [3, 4], "the files of brokers 1 and 2 are gone")


@pytest.mark.parametrize(
    ("topic", "goal", "says"),
    [
        ("{name}", {0: [1, 9]}, "Unknown broker id 9"),
        ("{name}", {7: [1, 2]}, "Unable to find partition: {name}-7"),
        ("{name}", {0: [1, 2]}, "partitions 0 to 1 of {name} are one shard, whose replicas move together"),
        ("__tidemill_metadata", {0: [1]}, "the cluster places the replicas of its metadata itself"),
    ],
)
def test_an_impossible_reassignment_says_why(
    tools: KafkaTools, name: str, tmp_path: Path, topic: str, goal: dict[int, list[int]], says: str
) -> None:
    create(tools, name, "2:3,2:3")
    file = reassignment_file(tmp_path / "plan", topic.format(name=name), goal)

    complaint = tools.complaint("kafka-reassign-partitions", *file, "--execute")

    assert says.format(name=name) in complaint
    assert ["No partition reassignments found."] == reassign(tools, "--list")


def test_other_directories_of_replicas_are_refused(tools: KafkaTools, name: str, tmp_path: Path) -> None:
    """A broker has one directory."""
    create(tools, name, "1:2")
    plan = tmp_path / "plan"
    moved = {"topic": name, "partition": 0, "replicas": [1, 2], "log_dirs": ["/elsewhere", "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))

    complaint = tools.complaint("kafka-reassign-partitions", "--reassignment-json-file", str(plan), "--execute")

    assert f"Failed to alter dir for {name}-0-1" in complaint
    assert "LogDirNotFoundException" in complaint


# ---- kafka-topics


def test_new_partitions_are_placed_as_assigned(tools: KafkaTools, name: str) -> None:
    create(tools, name, "1:2,1:2")
    grow = ("--alter", "--topic", name, "--partitions", "4", "--replica-assignment")

    unlike = tools.complaint("kafka-topics", *grow, "1:2,1:2,3:4,4")
    unknown = tools.complaint("kafka-topics", *grow, "1:2,1:2,3:4,4:9")
    tools.run("kafka-topics", *grow, "1:2,1:2,3:4,4:3")

    assert "replica" in unlike
    assert "9" in unknown
    assert [[1, 2], [1, 2], [3, 4], [4, 3]] == replicas(partitions(tools, name))


def listed_brokers(tools: KafkaTools, *options: str) -> list[str]:
    return sorted(line.split()[0] for line in tools.run("kafka-cluster", "list-endpoints", *options)[1:])


def test_the_loss_of_a_broker_is_shown(cluster: ClusterProcesses, tools: KafkaTools, name: str) -> None:
    """
    Two of three replicas are as many as `min.insync.replicas` demands, and one of two is no majority and so without a
    leader.  Only the listing that includes brokers that are down shows the broker.
    """
    kept, lost = f"{name}-kept", f"{name}-lost"
    create(tools, kept, "4:2:3", "--config", "min.insync.replicas=2")
    create(tools, lost, "4:1")

    cluster.stop(4)

    wait_until(lambda: partitions(tools, kept)[0]["Leader"] in "23", "another leader", seconds_max=COMMANDS_SECONDS_MAX)
    (row,) = partitions(tools, kept, "--under-replicated-partitions")
    assert [[2, 3]] == in_sync([row])
    assert 1 == len(partitions(tools, kept, "--at-min-isr-partitions"))
    assert [] == partitions(tools, kept, "--unavailable-partitions")
    (row,) = partitions(tools, lost, "--unavailable-partitions")
    assert "none" == row["Leader"]
    wait_until(
        lambda: listed_brokers(tools) == ["1", "2", "3"],
        "a broker that was up a moment ago is listed no more",
        seconds_max=COMMANDS_SECONDS_MAX,
    )
    assert ["1", "2", "3", "4"] == listed_brokers(tools, "--include-fenced-brokers")


# ---- kafka-leader-election


def test_leaders_come_back_with_their_broker(
    cluster: ClusterProcesses, tools: KafkaTools, name: str, tmp_path: Path
) -> None:
    """While the broker is down, neither kind of election does anything, and each says why."""
    kept, lost = f"{name}-kept", f"{name}-lost"
    create(tools, kept, "4:2:3")
    create(tools, lost, "4:1")
    chosen = tmp_path / "partitions"
    chosen.write_text(json.dumps({"partitions": [{"topic": kept, "partition": 0}]}))
    preferred = ("--election-type", "preferred", "--path-to-json-file", str(chosen))
    cluster.stop(4)
    wait_until(lambda: partitions(tools, kept)[0]["Leader"] in "23", "another leader", seconds_max=COMMANDS_SECONDS_MAX)

    down = tools.complaint("kafka-leader-election", *preferred)
    unclean = tools.complaint(
        "kafka-leader-election", "--election-type", "unclean", "--topic", lost, "--partition", "0"
    )
    cluster.start(4)
    wait_until(
        lambda: in_sync(partitions(tools, kept)) == [[2, 3, 4]], "in sync again", seconds_max=COMMANDS_SECONDS_MAX
    )
    elected = tools.run("kafka-leader-election", *preferred)

    assert f"broker 4, which should lead {kept}-0, is down" in down
    assert f"{lost}-0 has no leader, and an unclean election would lose acknowledged records" in unclean
    assert [f"Successfully completed leader election (PREFERRED) for partitions {kept}-0"] == elected
    assert "4" == partitions(tools, kept)[0]["Leader"]


# ---- kafka-metadata-quorum


def test_a_fourth_broker_observes_the_metadata(tools: KafkaTools) -> None:
    status = dict(line.split(":", 1) for line in tools.run("kafka-metadata-quorum", "describe", "--status"))
    _, *rows = tools.run("kafka-metadata-quorum", "describe", "--replication", "--human-readable")

    assert [1, 2, 3] == sorted(it["id"] for it in json.loads(status["CurrentVoters"]))
    assert [4] == [it["id"] for it in json.loads(status["CurrentObservers"])]
    assert {"4": "Observer"}.items() <= {row.split()[0]: row.split()[-1] for row in rows}.items()


def test_voters_of_the_metadata_are_not_removed_by_hand(tools: KafkaTools) -> None:
    """The cluster chooses them itself."""
    chosen = ("--controller-id", "3", "--controller-directory-id", "A" * 21 + "Q")

    complaint = tools.complaint("kafka-metadata-quorum", "remove-controller", *chosen)

    assert "REMOVE_RAFT_VOTER" in complaint


# ---- kafka-configs


def test_a_throttle_of_all_brokers_is_set_and_removed(tools: KafkaTools) -> None:
    about = ("--entity-type", "brokers", "--entity-default")

    wrong = tools.complaint("kafka-configs", "--alter", *about, "--add-config", f"{RATE}=-1")
    tools.run("kafka-configs", "--alter", *about, "--add-config", f"{RATE}={FAST}")
    set_to = tools.run("kafka-configs", "--describe", *about)
    tools.run("kafka-configs", "--alter", *about, "--delete-config", RATE)

    assert RATE in wrong and "at least 0" in wrong
    assert f"{RATE}={FAST}" == set_to[1].split()[0]
    assert 1 == len(tools.run("kafka-configs", "--describe", *about))


# ---- kafka-cluster unregister


def test_a_broker_that_is_stopped_and_empty_is_unregistered(java: None, name: str, tmp_path: Path) -> None:
    """
    A broker is refused while it is live, and while it carries something.  Kafka's commands alone can empty it, while it
    is up: they ask each broker for its directories first.
    """
    with ClusterProcesses(tmp_path, numbers=BROKERS, settings=SETTINGS) as cluster:
        started(cluster)
        tools = KafkaTools(cluster.bootstrap)
        create(tools, name, "4:1:2")
        unregister = ("unregister", "--id", "4")
        complaints = [tools.complaint("kafka-cluster", *unregister)]
        cluster.stop(4)
        complaints.append(tools.complaint("kafka-cluster", *unregister))
        cluster.start(4)
        file = reassignment_file(tmp_path / "plan", name, {0: [3, 1, 2]})
        reassign(tools, *file, "--execute")
        wait_until_complete(tools, file)
        cluster.stop(4)

        removed = tools.run("kafka-cluster", *unregister)

        again = tools.complaint("kafka-cluster", *unregister)
        known = tools.run("kafka-cluster", "list-endpoints", "--include-fenced-brokers")
        status = dict(line.split(":", 1) for line in tools.run("kafka-metadata-quorum", "describe", "--status"))
    assert "unregistering broker 4 is refused: it is live" in complaints[0]
    assert "unregistering broker 4 is refused: replicas of shard" in complaints[1]
    assert ["Broker 4 is no longer registered."] == removed
    assert "broker 4 is not in this cluster; its brokers are 1, 2, 3" in again
    assert ["1", "2", "3"] == sorted(line.split()[0] for line in known[1:])
    assert [] == json.loads(status["CurrentObservers"])


# ---- client libraries


@pytest.fixture(params=[JavaClient, FranzClient], ids=lambda library: library.name)
def client(request: pytest.FixtureRequest, cluster: ClusterProcesses) -> Iterator[DrivenClient]:
    try:
        client = request.param(cluster.bootstrap)
    except Unavailable as reason:
        pytest.skip(str(reason))
    with closing(client):
        yield client


@pytest.fixture
def slow_copies(tools: KafkaTools) -> Iterator[None]:
    about = ("--entity-type", "brokers", "--entity-default")
    tools.run("kafka-configs", "--alter", *about, "--add-config", f"{RATE}={SLOW}")
    yield
    tools.run("kafka-configs", "--alter", *about, "--delete-config", RATE)


def refusal(client: DrivenClient, topic: str, goals: dict[int, list[int] | None], *, may_change_factor: bool) -> int:
    with pytest.raises(Refused) as refused:
        client.reassign(topic, goals, may_change_factor=may_change_factor)
    return refused.value.code


def test_libraries_move_replicas_list_the_moves_and_cancel_them(
    client: DrivenClient, tools: KafkaTools, slow_copies: None, name: str
) -> None:
    """A cancelled move goes back, and the same move succeeds later.  What is impossible has Kafka's error."""
    client.create_topic(name, 1, {}, replicas=3)
    (before,) = client.replicas(name)
    (spare,) = {*BROKERS} - {*before}
    goal = [spare, *before[1:]]
    fill(tools, name)

    client.reassign(name, {0: goal})

    assert {0: Reassigning([*goal, before[0]], [spare], [before[0]])} == client.reassigning(name)
    assert [[*goal, before[0]]] == client.replicas(name)
    client.reassign(name, {0: None})
    wait_until(lambda: client.reassigning(name) == {}, "the move is cancelled")
    assert [before] == client.replicas(name)
    refusals = [
        refusal(client, name, {0: None}, may_change_factor=True),
        refusal(client, name, {0: before[:2]}, may_change_factor=False),
        refusal(client, name, {0: [99]}, may_change_factor=True),
        refusal(client, name, {5: goal}, may_change_factor=True),
    ]
    assert [
        errors.NO_REASSIGNMENT_IN_PROGRESS,
        errors.INVALID_REPLICATION_FACTOR,
        errors.INVALID_REPLICA_ASSIGNMENT,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    ] == refusals
    client.reassign(name, {0: [before[1], before[0], before[2]]})
    assert ([[before[1], before[0], before[2]]], {}) == (client.replicas(name), client.reassigning(name))
