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
    *,
    is_controlled: bool = False,
) -> str:
    """
    Call `run` with one seed after the other until it raises one of `errors`, and return a line with the seed and the
    error.  `planted` returns the context in which the bug exists.  Fail if no seed finds it.

    `is_controlled`: also fail if `run` raises with that seed when the bug is not planted.  Set it unless a test of the
    same runs without planted bugs has that seed, or the control runs take too long.
    """
    tried = list(dict.fromkeys(seeds))
    for seed in tried:
        with planted():
            try:
                run(seed)
            except errors as found:
                assert_fits(found)
                line = f"{name}: seed {seed}: {str(found)[:SHOWN_MAX]}"
                break
    else:
        raise AssertionError(f"{name}: not found with {len(tried)} seeds")
    if is_controlled:
        run(seed)
    return line


def assert_fits(found: BaseException) -> None:
    """
    Fail if a planted bug was found by one of `MISFITS`, or by an error that one of them led to.  The planted code then
    no longer matches the production code, and plants no bug.
    """
    error: BaseException | None = found
    while error is not None:
        assert not isinstance(error, MISFITS), f"the planted bug does not fit the code any more: {error!r}"
        error = error.__cause__ or error.__context__
