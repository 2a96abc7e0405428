"""Notes about configurations that a broker accepts without effect."""

import json
import sys
import time
from collections.abc import Sequence
from typing import Final

from tidemill.cli.config_admin import ConfigAdmin, Resource
from tidemill.cli.failure import Failed

VISIBLE_WAIT_S: Final = 5.0  # a broker may learn of a new topic slightly later than the controller
RETRY_S: Final = 0.05


def print_notes(admin: ConfigAdmin, resource: Resource, keys: Sequence[str], *, as_json: bool, is_new: bool) -> None:
    """
    Print a line to stderr for each of `keys` that has no effect, with the reason.

    `is_new` means that the resource is a topic that has just been created.
    """
    if not keys:
        return
    for key, why in _without_effect(admin, resource, keys, is_new=is_new).items():
        message = f"{key} is accepted without effect: {why}"
        note = json.dumps({"event": "note", "key": key, "message": message})
        print(note if as_json else f"tidemill: note: {message}", file=sys.stderr)


def _without_effect(admin: ConfigAdmin, resource: Resource, keys: Sequence[str], *, is_new: bool) -> dict[str, str]:
    until = time.monotonic() + VISIBLE_WAIT_S
    while True:
        try:
            return admin.without_effect(resource, keys)
        except Failed as problem:
            is_unknown = problem.name == "UNKNOWN_TOPIC_OR_PARTITION"
            if not (is_new and is_unknown) or time.monotonic() > until:
                raise
        time.sleep(RETRY_S)
