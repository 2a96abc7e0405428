"""The alert rules and the Grafana dashboard of `monitoring` are complete, and Prometheus's own tool accepts them.

`tests/integration/clients/test_monitoring.py` compares the metrics that they name with those of a running broker.
"""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tidy.tree import ROOT

PROMETHEUS = ROOT / "monitoring" / "prometheus"
ALERTS = [
    rule
    for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]  # fmt: skip
DASHBOARD = json.loads((ROOT / "monitoring" / "grafana" / "tidemill.json").read_text())
PANELS = DASHBOARD["panels"]
COLUMNS = 24  # the width of Grafana's grid


def promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is missing (Debian package prometheus)")
    return subprocess.run([program, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")])
def test_promtool_accepts_the_rules(arguments: tuple[str, ...]) -> None:
    """
    The rules are valid, and each fires on the series of its test and on no series of a healthy cluster.
    """
    done = promtool(*arguments)

    assert 0 == done.returncode, done.stdout + done.stderr


def test_promtool_accepts_the_configuration_that_the_page_shows(tmp_path: Path) -> None:
    """
    The scrape configuration in `docs/http.md` is valid together with the file of alert rules.
    """
    page = (ROOT / "docs" / "http.md").read_text()
    shown = re.search(r"^```yaml title=.*?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert shown is not None
    (tmp_path / "prometheus.yaml").write_text(shown[1])
    shutil.copy(PROMETHEUS / "alerts.yaml", tmp_path)

    done = promtool("check", "config", str(tmp_path / "prometheus.yaml"))

    assert 0 == done.returncode, done.stdout + done.stderr


def test_promtool_accepts_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    """
    The queries of the dashboard are valid PromQL.  Grafana's variables are placeholders for a duration and for label
    values.
    """
    queries = [target["expr"] for panel in PANELS for target in panel.get("targets", ())]
    rules = [{"record": f"query:{at}", "expr": it.replace("$__rate_interval", "1m")} for at, it in enumerate(queries)]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    done = promtool("check", "rules", str(path))

    assert 0 == done.returncode, done.stdout + done.stderr


def test_every_alert_is_tested() -> None:
    """
    Each alert has a test in which it fires and one in which it does not.
    """
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text())["tests"]
    cases = [case for test in tests for case in test["alert_rule_test"]]

    names = [rule["alert"] for rule in ALERTS]
    assert sorted(names) == sorted(case["alertname"] for case in cases if case["exp_alerts"])
    assert sorted(names) == sorted(case["alertname"] for case in cases if not case["exp_alerts"])


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    """
    An alert's summary says what is wrong, its description says what to do, and its severity says whether it can wait.
    """
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert {"summary", "description"} == rule["annotations"].keys()
    assert [] == [text for text in rule["annotations"].values() if not text.endswith(".")]


def test_the_operations_pages_say_what_to_do_about_every_alert() -> None:
    """
    `docs/operations/monitoring.md` names every alert and none that does not exist.
    """
    named = re.findall(r"`(Tidemill\w+)`", (ROOT / "docs" / "operations" / "monitoring.md").read_text())

    assert sorted(rule["alert"] for rule in ALERTS) == sorted(named)


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    """
    The panels do not overlap: Grafana would move overlapping ones, and the dashboard would not look as intended.
    """
    taken: dict[tuple[int, int], str] = {}
    for panel in PANELS:
        at = panel["gridPos"]
        for cell in itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])):
            assert cell not in taken, f"{panel['title']} covers {taken[cell]}"
            assert cell[0] < COLUMNS
            taken[cell] = panel["title"]

    assert len(PANELS) == len({panel["id"] for panel in PANELS})


def test_the_dashboard_uses_the_data_source_that_its_reader_selects() -> None:
    """
    An imported dashboard must not refer to a data source of the machine on which it was created.
    """
    graphs = [panel for panel in PANELS if panel["type"] != "row"]
    targets = [target for panel in graphs for target in panel["targets"]]
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}

    assert {"${datasource}"} == {it["datasource"]["uid"] for it in [*graphs, *targets]}
    assert {"datasource", "job", "instance"} == variables
    assert [] == [target["expr"] for target in targets if 'job="$job"' not in target["expr"]]
    assert [] == [panel["title"] for panel in graphs if not panel["description"]]
