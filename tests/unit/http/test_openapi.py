"""The OpenAPI document says which operations can follow a response, and with which values."""

from typing import Any

from tidemill.http.v1 import openapi
from tidemill.http.v1.application import ROUTES

DOCUMENT = openapi.document(ROUTES, "1")


def links(method: str, path: str, status: str) -> dict[str, Any]:
    found: dict[str, Any] = DOCUMENT["paths"][path][method]["responses"][status]["links"]
    return found


def test_a_created_topic_is_named_in_the_paths_that_follow() -> None:
    """
    The name in the response is the variable of every path of a topic.
    """
    found = links("post", "/v1/topics", "201")

    assert {"path.topic": "$response.body#/name"} == found["topics_describe"]["parameters"]
    assert {"path.topic": "$response.body#/name"} == found["queues_receive"]["parameters"]
    assert "topics_create" not in found


def test_receipts_are_acknowledged_in_the_group_that_received_them() -> None:
    """
    Variables of the path are those of the request, and a list gets the value of the response.
    """
    found = links("post", "/v1/queues/{topic}/{group}/receive", "200")["queues_ack"]

    assert {"path.topic": "$request.path.topic", "path.group": "$request.path.group"} == found["parameters"]
    assert {"receipts": ["$response.body#/messages/0/receipt"]} == found["requestBody"]


def test_written_records_are_read_where_they_are() -> None:
    """
    The place of the first record is a variable of the path, and a parameter of the query.
    """
    found = links("post", "/v1/topics/{topic}/records", "200")["partition_reads_read"]

    assert "$response.body#/records/0/partition" == found["parameters"]["path.partition"]
    assert "$response.body#/records/0/offset" == found["parameters"]["query.offset"]
