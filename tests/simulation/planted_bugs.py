"""Runs simulations with planted bugs: one that misses planted bugs would miss real ones."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Final

MISFITS: Final = (AttributeError, NameError, TypeError)  # raised by planted code that uses outdated names or signatures
SHOWN_MAX: Final = 120  # characters of an error


def find_planted_bug(
    name: str,
    planted: Callable[[], AbstractContextManager[Any]],
    run: Callable[[int], object],
    seeds: Iterable[int],
    errors: tuple[type[Exception], ...] = (AssertionError,),
) -> str:
    """
    Call `run` with one seed after the other until it raises one of `errors`, and return a line with the seed and the
    error.  `planted` returns the context in which the bug exists.  Fail if no seed finds it.
    """
    tried = 0
    for seed in dict.fromkeys(seeds):
        tried += 1
        with planted():
            try:
                run(seed)
            except errors as found:
                assert_fits(found)
                return f"{name}: seed {seed}: {str(found)[:SHOWN_MAX]}"
    raise AssertionError(f"{name}: not found with {tried} seeds")


def assert_fits(found: BaseException) -> None:
    """
    Fail if a planted bug was found by one of `MISFITS`, or by an error that one of them led to.  The planted code then
    no longer matches the production code, and plants no bug.
    """
    error: BaseException | None = found
    while error is not None:
        assert not isinstance(error, MISFITS), f"the planted bug does not fit the code any more: {error!r}"
        error = error.__cause__ or error.__context__
