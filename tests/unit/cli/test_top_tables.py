"""The tables of `tidemill top` show every rate in its column, both when printed once and in the live view."""

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from tidemill.cli import top_tables
from tidemill.cli.top_groups import GroupSample
from tidemill.cli.top_rates import view_of
from tidemill.cli.top_sample import BrokerSample, Sample

MIB = 1 << 20
GROWTH = {
    "produce_records_total": 20,
    "produce_bytes_total": 4 * MIB,
    "fetch_bytes_total": 6 * MIB,
    "requests_total": 80,
    "journal_bytes_total": 10 * MIB,
    "journal_blocks_total": 120,
    "journal_sync_seconds_sum": 0.84,
    "journal_sync_seconds_count": 120,
}
"""By how much each counter of the broker grows from one sample to the next, which is 2 s later."""
BROKER_ROW = {
    "broker": "1",
    "status": "up",
    "records/s": "10",
    "in MiB/s": "2.00",
    "out MiB/s": "3.00",
    "requests/s": "40",
    "journal MiB/s": "5.00",
    "syncs/s": "60",
    "sync ms": "7.0",
}
TOPIC_ROW = {
    "topic": "flights",
    "partitions": "2",
    "leaderless": "1",
    "records/s": "25",
    "in MiB/s": "0.50",
    "out MiB/s": "1.50",
    "committed/s": "15",
}
GROUP_ROW = {"group": "billing", "state": "Stable", "topics": "1", "lag": "70", "committed/s": "15"}


def sample(number: int) -> Sample:
    counters = {(f"tidemill_{name}", ""): number * growth for name, growth in GROWTH.items()}
    counters |= {
        ("tidemill_topic_bytes_in_total", "flights"): number * 1 * MIB,
        ("tidemill_topic_bytes_out_total", "flights"): number * 3 * MIB,
    }
    at = 10.0 + 2 * number
    return Sample(
        cluster_id="c",
        at=at,
        brokers=[BrokerSample(broker_id=1, address="127.0.0.1:9080", status="up", at=at, counters=counters)],
        topics={"flights": [True, False]},
        ends={("flights", 0): 50 + 50 * number},
        groups={"billing": GroupSample(state="Stable", committed={("flights", 0): 30 * number})},
        answered_by=1,
        notes=[],
    )


def drawn_rows(screen: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the tables that rich has drawn."""
    for line in screen.splitlines():
        if line.startswith(("│", "┃")):
            yield [cell.strip() for cell in re.split("[│┃]", line)[1:-1]]


def test_rates_are_printed_in_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """
    A pipe gets, for each table, a line of column names and a line of values.
    """
    top_tables.print_once(view_of(sample(0), sample(1)))

    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines() if line]
    assert [[*BROKER_ROW], [*BROKER_ROW.values()]] == lines[0:2]
    assert [[*TOPIC_ROW], [*TOPIC_ROW.values()]] == lines[2:4]
    assert [[*GROUP_ROW], [*GROUP_ROW.values()]] == lines[4:6]


def test_the_live_view_has_the_rates_between_the_last_two_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The first sample has no rates; the second one has them.  Ctrl-C ends the view, and the last tables stay.
    """

    class TwoSamples:
        numbers = iter([0, 1])

        def sample(self) -> Sample:
            for number in self.numbers:
                return sample(number)
            raise KeyboardInterrupt

    screen = io.StringIO()
    monkeypatch.setattr(top_tables, "Console", lambda: Console(file=screen, width=200, height=60))

    with pytest.raises(KeyboardInterrupt):
        top_tables.show_live(TwoSamples(), 0.0)  # type: ignore[arg-type]

    rows = [*drawn_rows(screen.getvalue())]
    assert [[*BROKER_ROW], [*BROKER_ROW.values()]] == rows[0:2]
    assert [[*TOPIC_ROW], [*TOPIC_ROW.values()]] == rows[2:4]
    assert [[*GROUP_ROW], [*GROUP_ROW.values()]] == rows[4:6]
