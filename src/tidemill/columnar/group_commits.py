"""Commits the progress of a streaming query to a consumer group, so that lag monitoring tools show the query.

The query never reads these commits: its checkpoint alone decides where it resumes.
"""

import logging
from typing import Final

from tidemill.client.failures import ClientError
from tidemill.client.group_offsets import GroupOffsets
from tidemill.columnar.offset_bound import JsonOffsets, from_json

_LOG = logging.getLogger(__name__)

DEADLINE_MS: Final = 5_000  # time limit of one commit: a micro-batch waits until its commit ends


class GroupCommits:
    """The commits of one query to one group."""

    def __init__(self, group: str, group_offsets: GroupOffsets) -> None:
        self._group = group
        self._group_offsets = group_offsets
        self._committed: JsonOffsets | None = None

    def refuse_members(self) -> None:
        """Raise GroupHasMembers (a ClientError) if the group has active members."""
        self._group_offsets.refuse_members()

    def commit(self, completed: JsonOffsets) -> None:
        """
        Commit the end of a completed micro-batch, unless it is committed already.

        A failure is only logged, because the query does not depend on the group.
        """
        if completed == self._committed:
            return
        try:
            self._group_offsets.commit(from_json(completed))
        except ClientError as error:
            _LOG.warning("commitGroup=%s: the query continues without this commit: %s", self._group, error)
        else:
            self._committed = completed
