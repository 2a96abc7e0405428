"""Refuses options and topics with which a replay would fail or never end, before anything is written."""

import time
from collections.abc import Mapping
from datetime import timedelta

from tidemill.model.partition import TopicPartition
from tidemill.model.topic_kind import KIND, TopicKind
from tidemill.spark.pipelines.frame import topic_fitness
from tidemill.spark.pipelines.frame.one_topic import OneTopic
from tidemill.spark.pipelines.replay.options import ReplayOptions
from tidemill.spark.pipelines.replay.record_times import edge_timestamps
from tidemill.spark.pipelines.replay.replay_state import ReplayState

Offsets = Mapping[TopicPartition, int]


class ReplayRefused(ValueError):
    """The replay cannot be done with these options and topics."""


def check(options: ReplayOptions, state: ReplayState, ends: Offsets, source: OneTopic, target: OneTopic) -> None:
    """
    Check a replay from the progress in `state` to the offsets `ends`.

    Raise ReplayRefused, UnknownTopic if the target does not exist, or another ClientError if a request fails.
    """
    if state.end is None:
        _check_open_range(options)
    targets = target.ends()
    needed = max((partition.partition + 1 for partition in state.start), default=0)
    if options.keep_partitions and len(targets) < needed:
        raise ReplayRefused(
            f"keep_partitions=true needs {needed} partitions, and topic {options.to!r} has {len(targets)}: add "
            "partitions to it, or leave keep_partitions out to route by key"
        )
    configs = target.configurations((*topic_fitness.KEYS, KIND))
    _check_kind(options, configs.pop(KIND, None))
    timestamps = [] if options.into_timer else edge_timestamps(source.source, state.done, ends)
    if timestamps:
        _check_timestamps(options, configs, min(timestamps), max(timestamps))


def _check_open_range(options: ReplayOptions) -> None:
    if options.end is not None:
        raise ReplayRefused(f"end={options.end} contradicts a continuous run, which has no end: leave one of them out")
    if options.topic == options.to:
        raise ReplayRefused(
            f"to={options.to} is the topic that is read, so a continuous replay would read its own records for ever: "
            "replay a range with an end, or name another topic"
        )


def _check_kind(options: ReplayOptions, kind: str | None) -> None:
    """Raise if records wait in the target and should not, or the other way round.  Kafka's topics have no kind."""
    if options.into_timer and kind != TopicKind.TIMER:
        told = f"is of kind {kind}" if kind else f"has no kind, because its broker does not report {KIND}"
        raise ReplayRefused(
            f"into_timer=true needs a timer topic, and {options.to!r} {told}: create one with `tidemill topics create "
            "NAME --kind timer`, or leave into_timer out"
        )
    if kind == TopicKind.TIMER and not options.into_timer:
        raise ReplayRefused(
            f"topic {options.to!r} is of kind timer: set into_timer, so that records wait in it, or name another topic"
        )


def _check_timestamps(options: ReplayOptions, configs: dict[str, str], first_ms: int, last_ms: int) -> None:
    """Raise if the target would refuse, replace or remove records because of their timestamps."""
    if configs.pop("message.timestamp.type", None) == "LogAppendTime" and options.shift_by:
        raise ReplayRefused(
            f"shift has no effect in topic {options.to!r}, whose message.timestamp.type=LogAppendTime replaces "
            "timestamps by the broker's clock: set message.timestamp.type=CreateTime, or leave shift out"
        )
    shift_us = options.shift_by // timedelta(microseconds=1)
    refusals = topic_fitness.refusals(
        options.to,
        configs,
        first_us=first_ms * 1_000 + shift_us,
        last_us=last_ms * 1_000 + shift_us,
        partition_bytes=0,  # not known before the replay
        now_ms=time.time_ns() // 1_000_000,
        is_expiry_allowed=options.allow_expired,
    )
    if refusals:
        raise ReplayRefused("; ".join(refusals))
