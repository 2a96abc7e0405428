"""The words in which commands and pages show the states of brokers and the progress of moves."""

from collections.abc import Collection

from tidemill.model.duration import shown


def broker_state(
    *,
    presence: str,
    drain: str,
    is_live: bool,
    is_heard: bool,
    is_ready: bool,
    silent_ms: int | None,
    live_ms: int | None,
    replicas: int,
) -> str:
    """
    Return whether a broker is there, for how long it has not been, and what is drained of it: "down 40s", "gone, back",
    "active, draining all".

    `replicas` counts those that are planned for it, and those that are planned elsewhere and are not copied yet.
    `presence` and `drain` are their names in small letters.  `is_live` says whether the broker that tells the state
    hears it, and `is_heard` whether any live broker does.  Without a duration, only the state is shown.
    """
    state = presence
    if not is_live and is_heard and presence == "active":
        state = "active, heard by others only"
    elif not is_live:
        state = "down" if presence == "active" else presence
        if silent_ms is not None:
            state += f" {shown(silent_ms)}"
    elif presence != "active":
        state += ", back" if live_ms is None else f", back {shown(live_ms)}"
    elif not is_ready and drain == "none":
        state = "not ready"
    if drain != "none":
        state += ", empty" if drain == "all" and not replicas else f", draining {drain}"
    return state


def copied_percent(*, voters: Collection[int], replicas: Collection[int], size: int, remaining: int) -> int | None:
    """Return which part of the new replicas of a shard is there; None if there is nothing to copy."""
    total = size * len(set(replicas) - set(voters))
    return None if not total else max(total - remaining, 0) * 100 // total
