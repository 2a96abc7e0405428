"""The back-offs of workers: how long a failed message waits before it is delivered again."""

from tidemill.model.back_off import BackOff, Growth
from tidemill.sdk.durations import Duration, milliseconds


def constant(delay: Duration, *, jitter: float = 0.0) -> BackOff:
    """Return a back-off of `delay` after each attempt.  At random, up to the fraction `jitter` of it is left out."""
    return _back_off(Growth.CONSTANT, delay, None, jitter)


def linear(first: Duration, *, step: Duration | None = None, max: Duration = "7d", jitter: float = 0.0) -> BackOff:
    """Return a back-off of `first`, to which each further attempt adds `step`, by default `first`, up to `max`."""
    step_ms = milliseconds("step", first if step is None else step, at_least_ms=1)
    return _back_off(Growth.LINEAR, first, max, jitter, step_ms=step_ms)


def exponential(first: Duration, *, factor: float = 2.0, max: Duration = "7d", jitter: float = 0.1) -> BackOff:
    """Return a back-off of `first`, which each further attempt multiplies by `factor`, up to `max`."""
    if not 1 <= factor <= 1_000:
        raise ValueError(f"factor={factor}: use 1 to 1000")
    return _back_off(Growth.EXPONENTIAL, first, max, jitter, factor=factor)


def _back_off(
    growth: Growth,
    first: Duration,
    longest: Duration | None,
    jitter: float,
    *,
    step_ms: int = 0,
    factor: float = 2.0,
) -> BackOff:
    if not 0 <= jitter <= 1:
        raise ValueError(f"jitter={jitter}: use 0 to 1")
    first_ms = milliseconds("first", first, at_least_ms=1)
    max_ms = first_ms if longest is None else milliseconds("max", longest, at_least_ms=1)
    return BackOff(growth=growth, first_ms=first_ms, step_ms=step_ms, factor=factor, max_ms=max_ms, jitter=jitter)
