"""`tidemill dlq redrive`: plans what is sent back, asks, sends, waits, and reports."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from tidemill.cli.client_errors import client_errors
from tidemill.cli.client_session import client_session
from tidemill.cli.confirmation import confirm
from tidemill.cli.dlq_where import Where
from tidemill.cli.failure import ExitCode, Failed
from tidemill.cli.letter import Letter
from tidemill.cli.letter_reader import LetterReader
from tidemill.cli.output import print_json
from tidemill.cli.pipeline_progress import shown_progress
from tidemill.cli.redrive import Redrive, RedriveCounts
from tidemill.cli.redrive_plan import RedrivePlan, plan
from tidemill.cli.redrive_share import LeaderShare
from tidemill.cli.refusal import refusal
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.share_client import ShareClient, ShareRefused

SHOWN_MAX: Final = 5  # a message lists at most this many topics or partitions
GO_ON: Final = "run the same command again to go on: it sends no letter twice"


class RedriveCommand:
    """One run of the command."""

    def __init__(self, bootstrap: str, topic: str, *, to: str | None, as_json: bool) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._to = to
        self._as_json = as_json

    def run(self, where: Where, *, rate: int | None, letters_max: int | None, is_dry: bool, is_sure: bool) -> None:
        """Send the letters back that `where` selects.  Raise `Failed` if that is refused, interrupted or incomplete."""
        with client_session(self._bootstrap) as cluster, client_errors(self._bootstrap, f"topic {self._topic!r}"):
            reader, planned = self._planned(cluster, where)
            if not planned.letters:
                self._report(planned, RedriveCounts(), {}, is_dry=is_dry)
                return
            share = LeaderShare(ShareClient(cluster), self._topic, reader.topic_id, self._to)
            if is_dry:
                with shown_progress(as_json=self._as_json) as progress:
                    redrive = Redrive(share, progress)
                    redrive.send(planned, letters_max=letters_max, is_trial=True)
                self._report(planned, redrive.counts, {}, is_dry=True)
                return
            limit = "" if letters_max is None or letters_max >= planned.letters else f" at most {letters_max} of"
            question = f"Send{limit} {_letters(planned.letters)} of {self._topic} to {_listed(planned.targets)}?"
            confirm(question, is_sure=is_sure, otherwise="nothing was sent back")
            with shown_progress(as_json=self._as_json) as progress:
                redrive = Redrive(share, progress)
                try:
                    redrive.send(planned, rate=rate, letters_max=letters_max)
                    remaining = redrive.wait()
                except KeyboardInterrupt:
                    raise _interrupted(redrive.counts) from None
                except ShareRefused as refused:
                    raise ShareRefused(
                        refused.name, f"{refused}; {_letters(redrive.counts.sent)} were sent back before"
                    ) from refused
        self._report(planned, redrive.counts, remaining, is_dry=False)
        if remaining:
            raise _incomplete(remaining)

    def _planned(self, cluster: ClusterMetadata, where: Where) -> tuple[LetterReader, RedrivePlan]:
        cluster.refresh(None)
        topics = frozenset(cluster.topics())
        if self._to is not None and self._to not in topics:
            raise refusal("UNKNOWN_TOPIC_OR_PARTITION", f"--to {self._to}", "it does not exist")
        reader = LetterReader(cluster, self._topic)
        now_ms = round(time.time() * 1000)
        with shown_progress(as_json=self._as_json) as progress:
            progress.begin("reading", reader.offset_count)

            def selected() -> Iterator[Letter]:
                for letter in reader.letters():
                    progress.advance(1)
                    if where.selects(letter, now_ms):
                        yield letter

            return reader, plan(selected(), self._topic, to=self._to, topics=topics)

    def _report(
        self, planned: RedrivePlan, counts: RedriveCounts, remaining: Mapping[int, int], *, is_dry: bool
    ) -> None:
        """Print what was done or, after a dry run, what would be done."""
        skipped = {skip.name.lower(): count for skip, count in sorted(planned.skipped.items())}
        if self._as_json:
            print_json(
                {
                    "topic": self._topic,
                    "to": self._to,
                    "selected": planned.letters,
                    "targets": dict(planned.targets.most_common()),
                    "would_send" if is_dry else "sent": counts.sent,
                    "sent_before": counts.before,
                    "undecided": counts.undecided,
                    "waiting": sum(remaining.values()),
                    "skipped": skipped,
                    "unknown_topics": sorted(planned.unknown_topics),
                }
            )
            return
        if not planned.letters:
            print("no letter is selected that can be sent back")
        elif is_dry:
            print(f"{_letters(counts.sent)} would be sent back; selected: {_listed(planned.targets)}")
        else:
            print(f"sent back {_letters(counts.sent)}")
        if counts.before:
            print(f"{_letters(counts.before)} had been sent back before")
        if counts.undecided:
            print(f"{_letters(counts.undecided)} skipped: another command is just sending them back")
        for skip, count in sorted(planned.skipped.items()):
            print(f"{_letters(count)} skipped: {skip}")
        if planned.unknown_topics:
            print(f"topics that do not exist: {_first(sorted(planned.unknown_topics))}")


def _letters(count: int) -> str:
    return f"{count:,} {'letter' if count == 1 else 'letters'}"


def _listed(targets: Mapping[str, int]) -> str:
    """Return topics with their counts, the largest first."""
    pairs = sorted(targets.items(), key=lambda pair: (-pair[1], pair[0]))
    return _first([f"{topic} ({count:,})" for topic, count in pairs])


def _first(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more


def _interrupted(counts: RedriveCounts) -> Failed:
    done = f"interrupted after {_letters(counts.sent)} were sent back"
    return Failed(f"{done}; {GO_ON}", exit_code=ExitCode.INTERRUPTED)


def _incomplete(remaining: Mapping[int, int]) -> Failed:
    parts = _first([f"{count:,} of partition {partition}" for partition, count in remaining.items()])
    return Failed(
        f"{_letters(sum(remaining.values()))} not yet written to their topics ({parts}): they are sent back as soon as "
        "the topics accept them; check that these have leaders, and run the same command again to wait: it sends no "
        "letter twice"
    )
