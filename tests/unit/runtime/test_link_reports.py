"""Which problems with links are logged, at which level, and how often."""

import json

import pytest

from tidemill.runtime.link_reports import NOTICE_MS, PEERS_MAX, REPORTS_PER_PEER_MAX, LinkReports
from tidemill.telemetry.event_log import OUTAGE_MS, EventLog

TO = "to mill-2:9070"
FROM = "from mill-2"


class Reports(LinkReports):
    """Link reports with a clock that the test sets, and the lines that they have logged."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self._lines: list[str] = []
        super().__init__(EventLog(self._lines.append, lambda: 0, as_json=True), lambda: self.now_s)

    def logged(self) -> list[tuple[str, str]]:
        """Return the level and the event of each line logged since the last call."""
        events = [json.loads(line) for line in self._lines]
        self._lines.clear()
        return [(event["level"], event["event"]) for event in events]


def test_what_heals_within_seconds_is_not_logged() -> None:
    """Brokers of a new cluster start one after another, so a peer that is not listening yet is not worth logging."""
    reports = Reports()
    for _ in range(10):
        reports.failed(TO, "Connection refused")
        reports.now_s += NOTICE_MS / 1_000 / 10
    reports.linked(TO)

    assert [] == reports.logged()
    assert reports.last_failure is not None and "Connection refused" in reports.last_failure


def test_what_heals_soon_is_no_warning() -> None:
    """A link that fails until just before the time limit causes a single line at level info."""
    reports = Reports()
    for _ in range(20):
        reports.failed(TO, "Connection refused")
        reports.now_s += OUTAGE_MS / 1_000 / 20
    reports.linked(TO)

    assert [("info", "no link to a broker")] == reports.logged()


def test_a_long_outage_is_one_warning_and_its_end_is_reported() -> None:
    """An outage begins with the first failure after a link was up; each outage is reported."""
    reports = Reports()
    for _ in range(2):
        for _ in range(50):
            reports.failed(TO, "Connection refused")
            reports.now_s += OUTAGE_MS / 1_000 / 10
        reports.linked(TO)
        reports.linked(TO)

    once = [("info", "no link to a broker"), ("warning", "no link to a broker"), ("info", "link restored")]
    assert once * 2 == reports.logged()


def test_a_refusal_is_a_warning_at_once() -> None:
    """Only a changed setting ends a refusal, so the operator learns of each reason immediately, and only once."""
    reports = Reports()
    for _ in range(3):
        reports.refused(FROM, "the key differs")
        reports.refused(FROM, "the version differs")

    assert [("warning", "no link to a broker")] * 2 == reports.logged()


def test_a_broker_that_dials_reports_its_own_outages() -> None:
    """
    Incoming connections that fail now and then, such as those of a port scanner, are not an outage, and cause no
    warning: a broker reports only outages of links that it dials.
    """
    reports = Reports()
    reports.failed(FROM, "the other end closed the connection")
    reports.now_s += OUTAGE_MS
    reports.failed(FROM, "the other end closed the connection")
    reports.linked(FROM)

    assert [("info", "no link to a broker")] == reports.logged()


def test_an_outage_that_was_a_warning_ends_also_if_the_address_is_not_dialled_for_a_while() -> None:
    """
    A broker that comes back with an empty directory has no address in the metadata between its admission and its
    registration.  Its peers do not dial it during that time, but must still report the end of the outage about which
    they warned.
    """
    reports = Reports()
    for _ in range(2):
        reports.failed(TO, "Connection refused")
        reports.now_s += OUTAGE_MS / 1_000
    reports.forget(TO)
    reports.forget("to mill-3:9070")
    reports.linked(TO)

    assert [("warning", "no link to a broker"), ("info", "link not needed"), ("info", "link restored")] == (
        reports.logged()
    )


def test_a_warning_ends_if_the_broker_has_moved() -> None:
    """
    A broker that comes back at another address is never reached at the old one, so the log says that the old link is
    not needed.
    """
    reports = Reports()
    for _ in range(2):
        reports.failed(TO, "Connection refused")
        reports.now_s += OUTAGE_MS / 1_000
    reports.forget(TO)

    assert [("warning", "no link to a broker"), ("info", "link not needed")] == reports.logged()


def test_an_address_that_is_not_dialled_any_more_has_no_outage() -> None:
    """A short outage is forgotten together with its address; if the address comes back, a new outage begins."""
    reports = Reports()
    for _ in range(2):
        reports.failed(TO, "Connection refused")
        reports.now_s += NOTICE_MS / 1_000
        reports.failed(TO, "Connection refused")
        reports.forget(TO)
        reports.now_s += OUTAGE_MS

    assert [("info", "no link to a broker")] * 2 == reports.logged()


@pytest.mark.parametrize(("peers", "problems"), [(PEERS_MAX * 2, 1), (1, REPORTS_PER_PEER_MAX * 2)])
def test_memory_is_bounded(peers: int, problems: int) -> None:
    """The numbers of remembered peers and problems are limited."""
    reports = Reports()

    for peer in range(peers):
        for problem in range(problems):
            reports.failed(f"from mill-{peer}", str(problem))

    assert len(reports._outages) <= PEERS_MAX
    assert peers * min(problems, REPORTS_PER_PEER_MAX) == len(reports.logged())


def test_the_last_refusal_is_remembered_until_there_is_a_link() -> None:
    """A failure at another address says less: that broker may only be down."""
    reports = Reports()
    reports.refused(TO, "another cluster key")
    reports.failed("to mill-3:9070", "Connection refused")

    assert "no link to mill-2:9070: another cluster key" in (reports.last_refusal or "")
    assert "Connection refused" in (reports.last_failure or "")
    reports.linked(TO)
    assert reports.last_refusal is None
