"""Run the whole test suite in stages, then report how long each stage took and which tests were skipped.

    python tools/run_tests.py [PYTEST OPTION ...]

Each stage is a separate pytest process, so a stage that crashes does not stop the others.

    quick       runs first, on all cores
    waiting     the stages that mostly wait for processes; three of them run at the same time
    virtual     meanwhile, on all cores that the waiting stages leave idle: simulations, whose time is virtual, so that
                it does not matter how slowly they run

In quick and virtual stages, tests that are marked as long begin before the others.  The output of a stage that runs
beside others is printed when it ends.

The report lists the reason of every skip, because a missing tool (strace, fuse3, promtool) silently removes tests.  Its
last line has the form `N passed, N failed, N skipped in S s`.  The exit code is 0 only when no test failed and every
stage could run.
"""

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
STAMP: Final = Path(".venv/made-from-pyproject")  # contains the seconds that creating the environment took
CLASS_ARCHIVE: Final = Path(sys.prefix) / "spark-classes.jsa"
BUDGET_S: Final = 24 * 60
NOTHING_COLLECTED: Final = 5  # pytest's exit code
VIRTUAL_TEST_S_MAX: Final = 3_600  # a test takes half a minute, and longer while others use the cores
IN_IDLE_TIME: Final = ("nice", "-n", "19")
SUMMARY: Final = "-rfEs"  # print a short summary: failed, errors, skipped with reasons
SLOWEST: Final = ("--durations=10", "--durations-min=5")  # list the slowest tests of each stage
SKIPPED: Final = re.compile(r"SKIPPED \[(\d+)\] (\S+?\.py)(?::\d+)?: (.*)")

Skips = Mapping[str, Mapping[str, int]]
"""How many tests of each file were skipped, by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    share_s: int
    paths: tuple[str, ...]


class Stages(NamedTuple):
    quick: list[Stage]
    virtual: list[Stage]
    waiting: list[Stage]


QUICK: Final = (Stage(name="unit", share_s=200, paths=("tests/unit", "tests/tidy")),)
VIRTUAL: Final = (
    Stage(name="crash points", share_s=420, paths=("tests/simulation/store",)),
    Stage(name="simulated clusters", share_s=840, paths=("tests/simulation/raft", "tests/simulation/cluster")),
)
"""Stages whose tests neither wait nor are measured, nor have time limits of seconds."""
WAITING: Final = (
    Stage(name="Spark", share_s=720, paths=("tests/integration/spark",)),
    Stage(name="faults", share_s=600, paths=("tests/fault",)),
    Stage(name="pages", share_s=540, paths=("tests/integration/documents",)),
    Stage(name="commands", share_s=330, paths=("tests/integration/cli",)),
    Stage(name="clients", share_s=240, paths=("tests/integration/clients",)),
    Stage(name="console", share_s=120, paths=("tests/integration/console",)),
    Stage(name="packages", share_s=90, paths=("tests/integration/packaging",)),
)
"""The other stages after the rest: the longest first, so that all end at about the same time."""
SIDE_BY_SIDE: Final = 3  # waiting stages that run at the same time
REST_SHARE_S: Final = 800
INSTALL_SHARE_S: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    stage: str
    share_s: int
    seconds: float
    counts: dict[str, int]
    is_broken: bool  # a test failed, or the stage could not run
    skips: Skips = field(default_factory=dict)


def stages(root: Path) -> Stages:
    """
    Return the stages, without directories that do not exist.

    All directories of tests that no stage names form another waiting stage, the first, because it is the longest.
    """
    named = {path for stage in (*QUICK, *VIRTUAL, *WAITING) for path in stage.paths}
    parents = {str(Path(path).parent) for path in named} - {"tests"}
    folders = [folder for parent in ("tests", *sorted(parents)) for folder in sorted((root / parent).glob("*/"))]
    others = tuple(
        path
        for path in (folder.relative_to(root).as_posix() for folder in folders)
        if path not in named and path not in parents and any((root / path).rglob("test_*.py"))
    )
    rest = [Stage(name="rest", share_s=REST_SHARE_S, paths=others)] if others else []
    return Stages(_present(QUICK, root), _present(VIRTUAL, root), _present([*rest, *WAITING], root))


def _present(group: Iterable[Stage], root: Path) -> list[Stage]:
    return [
        replace(stage, paths=paths)
        for stage in group
        if (paths := tuple(path for path in stage.paths if (root / path).is_dir()))
    ]


def counts_of(output: str) -> dict[str, int]:
    """Return the counts in pytest's closing line, the last line that has any, such as `{"passed": 3, "failed": 1}`."""
    for line in reversed(output.splitlines()):
        if re.search(r"\d+ \w+.* in [0-9.]+s", line):
            words = re.findall(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)", line)
            return {("error" if word == "errors" else word): int(number) for number, word in words}
    return {}


def skips_of(output: str) -> dict[str, dict[str, int]]:
    """Return the skipped tests in the short summary of a pytest run, by reason and file."""
    skips: dict[str, dict[str, int]] = {}
    for line in output.splitlines():
        if found := SKIPPED.fullmatch(line):
            count, file, reason = found.groups()
            files = skips.setdefault(reason, {})
            files[file] = files.get(file, 0) + int(count)
    return skips


def run(stage: Stage, options: list[str], *, is_alone: bool = False, is_virtual: bool = False) -> Outcome:
    """
    Run one stage in a pytest process; print its output as it arrives if it `is_alone`, or else at the end.

    Such a stage and one that `is_virtual` use all cores.  The latter gets only the time that no other process wants.
    """
    heading = f"\n── {stage.name}: {' '.join(stage.paths)}"
    print(heading if is_alone else f"\n── {stage.name}: started", flush=True)
    started = time.monotonic()
    shared = ["-n", "auto", "--dist", "worksteal"] if is_alone or is_virtual else []
    command = [sys.executable, "-m", "pytest", *stage.paths, SUMMARY, *SLOWEST, *shared, *options]
    if is_virtual:
        command = [*IN_IDLE_TIME, *command, f"--timeout={VIRTUAL_TEST_S_MAX}"]
    output = []
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            if is_alone:
                print(line, end="", flush=True)
    if not is_alone:
        print(heading, "".join(output), sep="\n", end="", flush=True)
    return Outcome(
        stage=stage.name,
        share_s=stage.share_s,
        seconds=time.monotonic() - started,
        counts=counts_of("".join(output)),
        skips=skips_of("".join(output)),
        is_broken=process.returncode not in (0, NOTHING_COLLECTED),
    )


def run_all(root: Path, options: list[str]) -> list[Outcome]:
    """Run the quick stages, then the virtual ones beside the waiting ones, and return the outcomes of all stages."""
    found = stages(root)
    with class_archive():
        outcomes = [run(stage, options, is_alone=True) for stage in found.quick]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        waiting = pool.map(lambda stage: run(stage, options), found.waiting)
        outcomes += [run(stage, options, is_virtual=True) for stage in found.virtual]
        outcomes += waiting
    return outcomes


def report(outcomes: list[Outcome], install_s: float, tests_s: float) -> str:
    """
    Return the table of times, the list of skips and the closing line.

    `tests_s` is less than the sum of the stages, because some run at the same time.
    """
    lines = ["", f"{'stage':<14}{'seconds':>9}{'of':>6}", f"{'install':<14}{install_s:>9.1f}{INSTALL_SHARE_S:>6}"]
    for outcome in outcomes:
        mark = "  ← over its share" if outcome.seconds > outcome.share_s else ""
        mark += "  ← broken" if outcome.is_broken else ""
        lines.append(f"{outcome.stage:<14}{outcome.seconds:>9.1f}{outcome.share_s:>6}{mark}")
    total_s = install_s + tests_s
    lines.append(f"{'all':<14}{total_s:>9.1f}{BUDGET_S:>6}{'  ← over' if total_s > BUDGET_S else ''}")
    sums = {word: sum(outcome.counts.get(word, 0) for outcome in outcomes) for word in ("passed", "failed", "skipped")}
    # A stage that broke without a failed test (it could not collect, or died) counts as one failed test.
    sums["failed"] += sum(outcome.counts.get("error", 0) for outcome in outcomes)
    sums["failed"] += sum(
        outcome.is_broken and not (outcome.counts.get("failed") or outcome.counts.get("error")) for outcome in outcomes
    )
    lines += skip_lines(outcome.skips for outcome in outcomes)
    lines.append(f"\n{sums['passed']} passed, {sums['failed']} failed, {sums['skipped']} skipped in {total_s:.0f} s")
    return "\n".join(lines)


def skip_lines(stages_skips: Iterable[Skips]) -> list[str]:
    """Return lines with the skips of all stages by reason, the most frequent first, or none if no test was skipped."""
    by_reason: dict[str, Counter[str]] = {}
    for skips in stages_skips:
        for reason, files in skips.items():
            by_reason.setdefault(reason, Counter()).update(files)
    if not by_reason:
        return []
    lines = ["", "skipped:"]
    for reason, counter in sorted(by_reason.items(), key=lambda item: (-item[1].total(), item[0])):
        lines.append(f"{counter.total():>3}  {reason}")
        lines.append("       " + ", ".join(f"{file} ({count})" for file, count in sorted(counter.items())))
    return lines


def install_seconds(root: Path) -> float:
    """Return the seconds that creating the environment took, or 0 if it existed before this run."""
    stamp = root / STAMP
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > BUDGET_S:
        return 0.0
    return float(stamp.read_text().strip() or 0)


@contextmanager
def class_archive() -> Iterator[None]:
    """
    Make the archive with which Java processes of tests start quickly, unless it exists, and wait for it at the end.
    Tests pass without it.
    """
    if CLASS_ARCHIVE.exists():
        yield
        return
    print("Archiving the classes of Spark (once)…", flush=True)
    with subprocess.Popen([sys.executable, "tools/spark_class_archive.py", CLASS_ARCHIVE], cwd=ROOT):
        yield


def main(options: list[str]) -> int:
    install_s = install_seconds(ROOT)
    started = time.monotonic()
    outcomes = run_all(ROOT, options)
    print(report(outcomes, install_s, time.monotonic() - started))
    return 1 if not outcomes or any(outcome.is_broken for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
