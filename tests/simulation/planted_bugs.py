"""Checks that the code of a planted bug still matches the production code."""

from typing import Final

MISFITS: Final = (AttributeError, NameError, TypeError)  # raised by planted code that uses outdated names or signatures


def assert_fits(found: BaseException) -> None:
    """
    Fail if a planted bug was found by one of `MISFITS`, or by an error that one of them led to.  The planted code then
    no longer matches the production code, and plants no bug.
    """
    error: BaseException | None = found
    while error is not None:
        assert not isinstance(error, MISFITS), f"the planted bug does not fit the code any more: {error!r}"
        error = error.__cause__ or error.__context__
