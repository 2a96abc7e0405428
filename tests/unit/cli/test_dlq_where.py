"""The conditions of `tidemill dlq --where`."""

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.cli.dlq_where import CHARS_MAX, Where, WhereError, parse
from tidemill.cli.letter import Letter
from tidemill.cli.letter_condition import Condition, Field, Literal, Operator, condition
from tidemill.model.letter_origin import MESSAGES, Cause, origin_of

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
VALUE = b'{"customer": {"id": 7, "name": "Ada"}, "items": [{"price": 1.5}], "paid": false, "note": null}'


def letter(
    *,
    cause: Cause = Cause.REJECTED,
    offset: int = 12,
    age_ms: int = HOUR_MS,
    key: bytes | None = b"k-7",
    value: bytes
    | None = b'{"customer": {"id": 7, "name": "Ada"}, "items": [{"price": 1.5}], "paid": false, "note": null}',
    headers: list[tuple[str, bytes | None]] | None = None,
) -> Letter:
    own = [
        ("__dlq.errors.topic", b"orders"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", str(offset).encode()),
        ("__dlq.errors.group", b"billing"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", MESSAGES[cause].encode()),
    ]
    all_headers = own + ([("code", b"503"), ("trace id", b"abc")] if headers is None else headers)
    return Letter(
        partition=0,
        offset=99,
        timestamp_ms=NOW_MS - age_ms,
        key=key,
        value=value,
        headers=all_headers,
        origin=origin_of(all_headers),
    )


@pytest.mark.parametrize(
    ("text", "is_selected"),
    [
        ("cause = rejected", True),
        ("cause != rejected", False),
        ("cause = 'limit'", False),
        ("topic = orders", True),
        ("topic ~ ord and group = billing", True),
        ("partition = 2 and attempts >= 3", True),
        ("offset >= 9", True),  # as text, "12" would be less than "9"
        ("offset = 12 and offset < 12", False),
        ("offset=12", True),
        ("age > 59m and age <= 1h", True),
        ("age > 7d", False),
        ("key = k-7", True),
        ("key ~ '-'", True),
        ("key != k-7", False),
        ("header.code = 503", True),
        ("header.code = 503.0", False),  # headers are text
        ("header.code >= 500 and header.code < 600", True),
        ("header.code >= '6'", False),
        ('header."trace id" ~ b', True),
        ("header.missing = 1", False),
        ("header.missing != 1", True),
        ("header.missing ~ ''", False),
        ("value ~ customer", True),
        ("value./customer/id = 7", True),
        ("value./customer/id = 7.0", True),
        ("value./customer/id = '7'", False),
        ("value./customer/id != '7'", True),
        ("value./customer/name = Ada", True),
        ("value./customer/name >= 'A'", True),
        ("value./customer/name ~ da", True),
        ("value./customer/name > 1", False),
        ("value./items/0/price < 2", True),
        ("value./items/1/price < 2", False),
        ("value./items/00/price < 2", False),
        ("value./paid = false", True),
        ("value./paid = 0", False),
        ("value./paid = 'false'", False),
        ("value./note = null", True),
        ("value./nothing = null", False),
        ("value./nothing != null", True),
        ("value.'' != null", True),
    ],
)
def test_a_letter_fulfils_a_condition(text: str, is_selected: bool) -> None:
    """
    Offsets and ages are compared as numbers, headers and keys as text unless the operator is an order, and a part of a
    JSON value as what it is in JSON.
    """
    assert is_selected is parse(text).selects(letter(), NOW_MS)


@pytest.mark.parametrize("value", [None, b"", b"not json", b"\xff", b"[" * 200_000, b"9" * 10_000, b"NaN"])
def test_a_value_that_is_no_json_has_no_parts(value: bytes | None) -> None:
    """
    A value that is not JSON, or that Python cannot read, selects nothing by its parts, and fails no command.
    """
    made = letter(value=value)

    assert not parse("value./a = 1").selects(made, NOW_MS)
    assert not parse("value.'' > 0").selects(made, NOW_MS)
    assert parse("value./a != 1").selects(made, NOW_MS)


def test_any_of_repeated_headers_may_fulfil_a_condition() -> None:
    """
    A condition on a repeated header holds if it holds for one of the values; `!=` remains the opposite of `=`.
    """
    made = letter(headers=[("tag", b"a"), ("tag", b"b"), ("tag", None)])

    assert parse("header.tag = b").selects(made, NOW_MS)
    assert not parse("header.tag != b").selects(made, NOW_MS)


def test_a_pointer_may_have_the_escapes_of_json_pointers() -> None:
    """
    `~1` and `~0` in a pointer are a slash and a tilde in a name.  The operator `~` needs a space before it only there.
    """
    made = letter(value=json.dumps({"a/b": {"c~d": "xyz"}}).encode())

    assert parse("value./a~1b/c~0d ~ y").selects(made, NOW_MS)
    assert parse("value./a~1b/c~0d~y").selects(made, NOW_MS)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected a field; the fields are cause, topic, .*value.JSON-pointer"),
        ("  ", 2, "expected a field"),
        ("offest > 5", 0, "'offest' is unknown; the fields are cause"),
        ("offset", 6, "expected an operator; the operators of offset are = != < <= > >="),
        ("offset ~ 5", 7, "offset cannot be compared with ~; the operators of offset are = != <"),
        ("offset > five", 9, "expected a whole number, for example 42"),
        ("offset > ", 9, "expected a value"),
        ("offset == 5", 8, "expected a value; one that is empty or begins with an operator must be in quotes"),
        ("age > 5", 6, "an age is a number with the unit s, m, h or d, for example 5m, 2h or 7d"),
        ("age = 5m", 4, "age cannot be compared with =; the operators of age are < <= > >="),
        ("cause = bad", 8, "a cause is rejected, limit, expired"),
        ("key > abc", 6, "> compares numbers, or text in quotes: expected a number, or 'abc'"),
        ("header = 1", 6, "expected a dot and the name of a header, for example header.trace-id"),
        ("header. = 1", 7, "something is missing after header."),
        ("value.customer = 1", 6, "a JSON pointer begins with /"),
        ("value.'/a~2' = 1", 6, "in a JSON pointer, ~0 means ~"),
        ("topic = 'a", 8, "the quote ' is not closed"),
        (r"topic = 'a\n'", 10, "a backslash may only precede a quote or another backslash"),
        ("topic = 'a'b", 11, "expected a space after the value"),
        ("topic = a or topic = b", 10, "expected `and` and another condition; there is no `or`, and no parentheses"),
        ("topic = a and", 13, "expected a field"),
        ("topic = a anda = b", 10, "expected `and`"),
        ("__import__('os')", 0, "'__import__[(]' is unknown"),
        ("topic = " + "a" * CHARS_MAX, CHARS_MAX, "at most 4096 are allowed"),
    ],
)
def test_an_error_points_at_its_position_and_says_what_is_allowed(text: str, position: int, message: str) -> None:
    """
    The message says what is wrong and what is allowed, and shows the text with a mark below the position.
    """
    with pytest.raises(WhereError, match=message) as caught:
        parse(text)

    _, shown, pointer = str(caught.value).splitlines()
    assert position == caught.value.position
    assert pointer.endswith("^") and len(shown) <= 90
    if position < len(text) and position < CHARS_MAX:
        assert text[position] == shown[len(pointer) - 1]


PARTS = st.text(st.sampled_from(string.ascii_letters + "/~01 .'\"\\=<é"), max_size=8)
POINTERS = PARTS.map(lambda part: "/" + part.replace("~", "~0"))
FIELDS = (
    st.sampled_from([Field(name) for name in ("cause", "topic", "offset", "age", "key", "value", "attempts")])
    | PARTS.map(lambda part: Field("header", part))
    | POINTERS.map(lambda part: Field("value", part))
)
TEXTS = st.text(st.sampled_from(string.ascii_letters + string.digits + " .'\"\\=<>!~é"), max_size=12)
LITERALS = (
    st.builds(Literal, TEXTS, st.just(True))
    | st.builds(Literal, st.from_regex(r"[^\s\"'=!<>~][^\s\"']{0,9}", fullmatch=True), st.just(False))
    | st.builds(Literal, st.sampled_from(["rejected", "limit", "5m", "7d", "12", "-1.5e3", "null"]), st.booleans())
)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    field = draw(FIELDS)
    operator = draw(st.sampled_from(field.kind.operators))
    for _ in range(5):
        try:
            return condition(field, operator, draw(LITERALS))
        except ValueError:
            continue
    return condition(Field("key"), Operator.CONTAINS, Literal("x", is_quoted=True))


@given(st.lists(conditions(), min_size=1, max_size=4))
def test_a_printed_condition_is_read_as_the_same(made: list[Condition]) -> None:
    """
    The text of a Where is parsed to an equal Where.
    """
    where = Where(tuple(made))

    assert where == parse(str(where))


SNIPPETS = [
    *"=!<>~'\"\\./ \n",
    "and",
    "cause",
    "offset",
    "age",
    "key",
    "header.",
    "value.",
    "/a",
    "5m",
    "rejected",
    "é",
]


@given(st.lists(st.sampled_from(SNIPPETS) | st.characters(), max_size=20).map("".join))
def test_any_text_is_a_condition_or_a_where_error(text: str) -> None:
    """
    No text raises another error, and what is parsed can be applied to a letter.
    """
    try:
        where = parse(text)
    except WhereError:
        return

    assert where.selects(letter(), NOW_MS) in (True, False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "/", ""]), inner, max_size=3),
    max_leaves=6,
)


@given(conditions(), JSON, st.none() | st.binary(max_size=6), st.binary(max_size=6))
def test_a_condition_applies_to_any_letter(made: Condition, document: Any, key: bytes | None, header: bytes) -> None:
    """
    Whatever a producer wrote, a condition selects the letter or does not, and `!=` is the opposite of `=`.
    """
    where = Where((made,))
    written = letter(key=key, value=json.dumps(document).encode(), headers=[("a", header), ("", None)])

    selected = where.selects(written, NOW_MS)

    if made.operator in (Operator.EQUAL, Operator.NOT_EQUAL):
        other = Operator.EQUAL if made.operator is Operator.NOT_EQUAL else Operator.NOT_EQUAL
        opposite = condition(made.field, other, made.literal)
        assert selected is not Where((opposite,)).selects(written, NOW_MS)
