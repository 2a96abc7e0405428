"""Performs `tidemill queue ack`: resolves records of each partition, and reports what has become of them."""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tidemill.cli.failure import Failed, usage
from tidemill.cli.output import counted, pipe_may_close, print_json, print_table
from tidemill.cli.queue_admin import QueueAdmin
from tidemill.client.share_client import OPERATOR, Resolved, ShareState
from tidemill.share.acknowledgement import Acknowledgement

_OFFSETS: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_COLUMNS: Final = ("partition", "resolved", "finished before", "held by others")


class Offsets(NamedTuple):
    """The offsets from `first` to `last`, both included."""

    first: int
    last: int


class Choice(NamedTuple):
    """What the command resolves, and how."""

    kind: Acknowledgement
    name: str  # of the consumer; OPERATOR for records that no consumer holds
    offsets: Offsets | None  # None: all
    delay_ms: int | None


def kind_of(*, release: bool, reject: bool, renew: bool, name: str | None) -> Acknowledgement:
    """Return the acknowledgement that the options choose.  Raise a usage error if they exclude each other."""
    if release + reject + renew > 1:
        raise usage("--release, --reject and --renew exclude each other")
    if renew and name is None:
        raise usage("--renew needs --as NAME: only a consumer has locks")
    if release:
        return Acknowledgement.RELEASE
    if reject:
        return Acknowledgement.REJECT
    return Acknowledgement.RENEW if renew else Acknowledgement.ACCEPT


def offsets_of(text: str) -> Offsets:
    """Parse the value of --offset.  Raise a usage error for an invalid value."""
    found = _OFFSETS.fullmatch(text)
    if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
        raise usage(f"--offset {text!r}: use an offset, such as 42, or the first and the last one, such as 42-99")
    return Offsets(int(found[1]), int(found[2] or found[1]))


def acknowledge(admin: QueueAdmin, states: Iterable[ShareState], choice: Choice, *, as_json: bool) -> None:
    """Resolve the records and print a row per partition.  Raise `Failed` if some could not be resolved."""
    rows = [(state, _resolve(admin, state, choice)) for state in states]
    with pipe_may_close():
        if as_json:
            for state, resolved in rows:
                print_json(_row(admin, state, resolved))
        else:
            print_table(_COLUMNS, [[state.partition.partition, *resolved] for state, resolved in rows])
    if choice.offsets is not None:
        for state, resolved in rows:
            _check(admin, state, choice.name, choice.offsets, resolved)


def _resolve(admin: QueueAdmin, state: ShareState, choice: Choice) -> Resolved:
    if choice.offsets is None:
        return admin.resolve_all(choice.name, state, choice.kind, choice.delay_ms)
    ranges = [(choice.offsets.first, choice.offsets.last, choice.kind)]
    return admin.resolve(choice.name, state.partition.partition, ranges, choice.delay_ms)


def _row(admin: QueueAdmin, state: ShareState, resolved: Resolved) -> dict[str, Any]:
    where = {"topic": admin.topic, "group": admin.group, "partition": state.partition.partition}
    return where | resolved._asdict()


def _check(admin: QueueAdmin, state: ShareState, name: str, offsets: Offsets, resolved: Resolved) -> None:
    """Raise `Failed` if some of the named records have been neither resolved nor finished before."""
    left = offsets.last - offsets.first + 1 - resolved.resolved - resolved.finished
    if left <= 0:
        return
    about = f"partition {state.partition.partition}: {counted(left, 'record')} not resolved"
    if name != OPERATOR:
        raise Failed(
            f"{about}: {name!r} does not hold {'it' if left == 1 else 'them'} (any more); "
            f"`tidemill queue receive {admin.topic} {admin.group} --as {name}` shows or acquires what it may hold"
        )
    if resolved.held:
        raise Failed(
            f"{about}: consumers hold {resolved.held}; name the consumer with --as, or wait for the locks to end"
        )
    raise Failed(f"{about}: the partition ends at offset {state.end}")
