"""Reports data loss as an error or a warning, depending on `failOnDataLoss`."""

import logging

_LOG = logging.getLogger(__name__)

_WHAT_TO_DO = (
    "Some data may have been lost: it was removed by retention, or the topic was deleted, before it was read. "
    "Start a new query with a new checkpoint to begin at startingOffsets, or set failOnDataLoss=false to continue "
    "with the remaining data."
)


class DataLossError(Exception):
    """Records that the query should have read are no longer in the cluster."""


def report(what: str, *, is_failing: bool) -> None:
    """Raise DataLossError if `is_failing`, otherwise log a warning."""
    if is_failing:
        raise DataLossError(f"{what} {_WHAT_TO_DO}")
    _LOG.warning("%s The query continues because failOnDataLoss=false.", what)
