"""Checks of planted bugs."""

from typing import Final

MISFITS: Final = (AttributeError, NameError, TypeError)  # raised by code that uses what was renamed or changed


def assert_fits(found: BaseException) -> None:
    """
    Fail if one of `MISFITS` is the error by which a planted bug was found, or led to it: the planted code then fits the
    production code no longer, and plants no bug.
    """
    error: BaseException | None = found
    while error is not None:
        assert not isinstance(error, MISFITS), f"the planted bug does not fit the code any more: {error!r}"
        error = error.__cause__ or error.__context__
