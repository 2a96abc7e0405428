"""What is said about names and values that msgspec does not accept."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from tests.unit.http.test_calls import request_of
from tidemill.http.v1.calls import Refused, _decoded, _query
from tidemill.http.v1.cluster_operations import DrainBody
from tidemill.http.v1.group_offsets import ResetBody
from tidemill.http.v1.legal import legal
from tidemill.http.v1.raw_values import ValueQuery
from tidemill.http.v1.records import ProduceBody
from tidemill.http.v1.streams import StreamQuery


class Inner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: Annotated[Literal["one", "all", "none"] | None, Meta(description="x")] = None


class Outer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from"}):
    start: Literal["earliest", "latest"] = "latest"
    lists: list[list[Inner] | int] = []
    pairs: list[tuple[str, Inner]] = []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"from": "x"}, "Invalid enum value 'x' - at `$.from`; use earliest or latest"),
        ({"from": "unknown field"}, "Invalid enum value 'unknown field' - at `$.from`; use earliest or latest"),
        (
            {"lists": [1, [{}, {"mode": "two"}]]},
            "Invalid enum value 'two' - at `$.lists[1][1].mode`; use all, none or one",
        ),
        (
            {"pairs": [["a", {"mode": "two"}]]},
            "Invalid enum value 'two' - at `$.pairs[0][1].mode`; use all, none or one",
        ),
        ({"start": 1}, "unknown field `start`; the names are from, lists, pairs"),
        ({"pairs": [["a", {"x": 1}]]}, "unknown field `x` - at `$.pairs[0][1]`; the names are mode"),
        ({"lists": ["a"]}, "Expected `int | array`, got `str` - at `$.lists[0]`"),
    ],
)
def test_the_names_and_values_that_there_are_follow_the_problem(body: dict[str, Any], says: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(msgspec.json.encode(body), type=Outer)

    assert f"{error.value}{legal(Outer, error.value)}".endswith(says)


@pytest.mark.parametrize("name", ["", "`", "` - at `$.lists[0]`", "unknown field", "`$[...]`", "- at `$", "\n"])
@pytest.mark.parametrize("inside", ["", "lists"])
def test_no_name_that_a_client_chooses_does_harm(name: str, inside: str) -> None:
    body = {inside: [[{name: 1}]]} if inside else {name: 1}
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.json.decode(msgspec.json.encode(body), type=Outer)

    assert len(legal(Outer, error.value)) < 100


def test_a_record_says_what_missed_may_be() -> None:
    for refuse in (
        lambda: _decoded(ProduceBody, b'{"records": [{}, {"missed": "two"}]}'),
        lambda: _query(ValueQuery, request_of("missed=two")),
    ):
        with pytest.raises(Refused, match=r"'two'.*\.missed`.*; use all, none or one$"):
            refuse()
    with pytest.raises(Refused, match=r"'end'.*`\$\.from`.*; use earliest or latest$"):
        _query(StreamQuery, request_of("from=end"))


@pytest.mark.parametrize(
    ("fields", "place", "values"),
    [
        (ProduceBody, "$.records[0].missed", "all, none or one"),
        (ValueQuery, "$.missed", "all, none or one"),
        (StreamQuery, "$.from", "earliest or latest"),
        (ResetBody, "$.to", "earliest or latest"),
        (DrainBody, "$.of", "all or leaders"),
    ],
)
def test_each_field_with_few_values_names_them(fields: type[msgspec.Struct], place: str, values: str) -> None:
    assert f"; use {values}" == legal(fields, msgspec.ValidationError(f"Invalid enum value 'x' - at `{place}`"))
