"""JSON pointers, with the examples of RFC 6901."""

import pytest

from tidemill.cli.json_pointer import MISSING, problem_of, resolve

DOCUMENT = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, " ": 7, "null": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/m~0n", 8),
        ("/ ", 7),
        ("/null", None),
        ("/foo/2", MISSING),
        ("/foo/01", MISSING),
        ("/foo/-", MISSING),
        ("/foo/bar", MISSING),
        ("/foo/0/x", MISSING),
        ("/null/x", MISSING),
        ("/missing", MISSING),
    ],
)
def test_a_pointer_names_a_part_of_a_document(pointer: str, value: object) -> None:
    """
    A pointer names a member of an object or an element of an array; null is a value, and differs from nothing.
    """
    assert problem_of(pointer) is None
    assert value is resolve(pointer, DOCUMENT) or value == resolve(pointer, DOCUMENT)


@pytest.mark.parametrize(("pointer", "position"), [("foo", 0), ("/a~", 2), ("/a~2b", 2), ("/~0~x", 3)])
def test_a_pointer_begins_with_a_slash_and_has_two_escapes(pointer: str, position: int) -> None:
    """
    The position of an error in a pointer is that of the wrong character.
    """
    problem = problem_of(pointer)

    assert problem is not None and position == problem[0]
