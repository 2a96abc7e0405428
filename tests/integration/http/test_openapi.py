"""The API does what `/openapi.json` says, for generated requests to every operation in it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest
import schemathesis
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from requests import Session
from schemathesis import Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from tests.integration.cli.dev_cluster import Cluster
from tests.integration.http.http_client import HttpClient, wait_until_known

TOPIC, TIMERS, GROUP, PARTITIONS = "generated", "timed", "generators", 3
PARTITIONS_MAX = 4  # of a generated topic, because each partition has replicas
WAIT_MS_MAX = 30_000
STREAM = "text/event-stream"  # a response without an end
EXAMPLES = 12  # for each operation; as many again are invalid
WALKS, STEPS = 15, 30  # along the links of the document, and operations in each
QUIET = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def no_failure(_: Any, response: Any, case: Case) -> None:
    """Check that a broker that refuses a request for now says when to repeat it, and that it never fails."""
    if response.status_code >= 500:
        assert 503 == response.status_code, f"{case.method} {case.formatted_path}: {response.text}"
        assert "retry-after" in response.headers, response.text


CHECKS = [
    no_failure,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def schema(cluster: Cluster, brokers: list[HttpClient]) -> Any:
    """
    Return the document of a broker, without streams.  A topic and a group exist whose records can be received, and a
    topic with a record that waits.
    """
    for name, kind in ((TOPIC, "log"), (TIMERS, "timer")):
        brokers[0].send("POST", "/v1/topics", {"name": name, "partitions": PARTITIONS, "kind": kind})
        wait_until_known(brokers, name)
    brokers[0].ok("POST", f"/v1/topics/{TIMERS}/records", {"records": [{"key": "k", "delay": "1h", "timer_id": "a"}]})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    group = ConfigResource(ConfigResource.Type.GROUP, GROUP, incremental_configs=[earliest])
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for done in client.incremental_alter_configs([group]).values():
        done.result(60)
    config = schemathesis.Config.from_dict(
        {"phases": {"stateful": {"inference": {"algorithms": []}}}}
    )  # our links only
    found = schemathesis.openapi.from_dict(brokers[0].ok("GET", "/openapi.json"), config=config)
    return found.exclude(lambda context: STREAM in str(context.operation.definition.raw["responses"]))


@pytest.fixture(scope="module")
def session(brokers: list[HttpClient]) -> Iterator[Session]:
    with Session() as found:
        yield found


def bound(case: Case) -> None:
    """Let a generated request wait for nothing, and create few partitions."""
    for given_values in (case.query, case.body):
        if isinstance(given_values, dict):
            _lower(given_values, "wait_ms", WAIT_MS_MAX, 0)
            _lower(given_values, "partitions", 1 << 31, PARTITIONS_MAX)


def _lower(values: dict[str, Any], name: str, legal_max: int, least: int) -> None:
    value = values.get(name)
    if type(value) is int and least < value <= legal_max:  # what is illegal stays so
        values[name] = least


def tame(case: Case) -> None:
    """Replace what would make most generated requests fail, so that others can follow them."""
    if "group" in case.path_parameters:
        case.path_parameters["group"] = GROUP
    if isinstance(case.body, dict):
        for name in ("configs", "replication_factor", "lease_ms", "max"):
            case.body.pop(name, None)
        if "records" in case.body:
            case.body["records"] = [{"value": "1"}]


def aim(case: Case) -> None:
    """Send a generated request to what exists."""
    if case.path.startswith("/v1/topics/{topic}/timers"):
        case.path_parameters["topic"] = TIMERS
        return
    if case.method == "DELETE":
        return
    for name, value in (("topic", TOPIC), ("group", GROUP)):
        if name in case.path_parameters:
            case.path_parameters[name] = value
    if isinstance(number := case.path_parameters.get("partition"), int):
        case.path_parameters["partition"] = number % PARTITIONS


def failures_in(response: Any, case: Case, checked: list[Any]) -> list[str]:
    """Return what is wrong with a response."""
    try:
        case.validate_response(response, checks=checked)
    except FailureGroup as group:
        return [f"{case.operation.label}: {it}\n{case.as_curl_command()}" for it in group.exceptions]
    return []


def has_only_names(operation: Any) -> bool:
    """
    Return whether all parameters are names in the path.  No name is invalid, which Hypothesis would find out by
    hundreds of attempts.
    """
    parameters = [it.definition for it in operation.iter_parameters()]
    return not operation.body and all((it["in"], it["schema"]) == ("path", {"type": "string"}) for it in parameters)


def failures_of(operation: Any, mode: GenerationMode, statuses: Counter[int], **where: Any) -> list[str]:
    """Send generated requests for an operation, count the statuses, and return what is wrong with the responses."""
    failures: list[str] = []
    if mode is GenerationMode.NEGATIVE and has_only_names(operation):
        return failures

    @settings(QUIET, max_examples=EXAMPLES)
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Case) -> None:
        bound(case)
        aim(case)
        response = case.call(**where)
        statuses[response.status_code] += 1
        failures.extend(failures_in(response, case, [*CHECKS, checks.negative_data_rejection]))

    with suppress(Unsatisfiable):  # nothing is invalid as the name of a topic
        send()
    return failures


def test_every_operation_answers_as_the_document_says(schema: Any, session: Session, brokers: list[HttpClient]) -> None:
    """
    For valid and for invalid requests, status, type, headers and body of the response are those of the document, no
    invalid request is accepted, and no broker fails.
    """
    failures: list[str] = []
    statuses: Counter[int] = Counter()
    for number, found in enumerate(schema.get_all_operations()):
        base_url = f"http://{brokers[number % len(brokers)].address}"
        for mode in GenerationMode:
            failures += failures_of(found.ok(), mode, statuses, base_url=base_url, session=session)

    assert [] == failures[:5]
    assert statuses[200] > EXAMPLES
    assert statuses[400] > EXAMPLES


def test_operations_follow_one_another_as_the_links_say(
    schema: Any, session: Session, brokers: list[HttpClient]
) -> None:
    """
    A topic that is created is written and received from, and what is received is acknowledged, wherever the links of
    the document lead; each response is as the document says.
    """
    failures: list[str] = []
    reached: Counter[tuple[str, int]] = Counter()
    acknowledged: list[str] = []

    class Walk(schema.as_state_machine()):  # type: ignore[misc]
        where: ClassVar[dict[str, Any]]

        def before_call(self, case: Case) -> None:
            bound(case)
            tame(case)

        def get_call_kwargs(self, _: Case) -> dict[str, Any]:
            return self.where

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            reached[case.operation.label, response.status_code] += 1
            failures.extend(failures_in(response, case, CHECKS))
            if response.status_code == 201:
                wait_until_known(brokers, case.body["name"])
            elif '"ok"' in response.text:
                acknowledged.append(case.operation.label)

    for number in range(WALKS):
        Walk.where = {"base_url": f"http://{brokers[number % len(brokers)].address}", "session": session}
        # Each walk has a seed of its own, because Hypothesis expects that what it repeats has the same effect.
        seed(number)(Walk).run(settings=settings(QUIET, max_examples=2, stateful_step_count=STEPS, derandomize=False))

    assert [] == failures[:5]
    assert reached["POST /v1/topics", 201]
    assert reached["POST /v1/topics/{topic}/records", 200]
    assert reached["POST /v1/queues/{topic}/{group}/receive", 200]
    assert acknowledged
