"""What `failOnDataLoss` decides: an error that says what to do, or a warning."""

import logging

_LOG = logging.getLogger(__name__)

_WHAT_TO_DO = (
    "Some data may have been lost: it was aged out by retention, or the topic was deleted, before it was read. "
    "Start a new query with a new checkpoint to begin at startingOffsets, or set failOnDataLoss=false to go on "
    "with what is there."
)


class DataLossError(Exception):
    """Records that the query should have read are not in the cluster any more."""


def report(what: str, *, is_failing: bool) -> None:
    """DataLossError, or a line in the log."""
    if is_failing:
        raise DataLossError(f"{what} {_WHAT_TO_DO}")
    _LOG.warning("%s Reading goes on because failOnDataLoss=false.", what)
