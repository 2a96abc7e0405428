"""Fetch jars from Maven Central into the benchmark cache with a generated pom and Maven's dependency plugin."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker import Unavailable

FETCH_SECONDS_MAX = 600  # 100 MB of jars on a slow connection


class Artifact(NamedTuple):
    """One Maven coordinate, and the transitive dependencies (group:artifact) to exclude."""

    group: str
    name: str
    version: str
    without: tuple[str, ...] = ()


def cache_directory() -> Path:
    """
    Return the cache folder, TIDEMILL_BENCH_CACHE or one outside the checkout, so that a clean clone does not fetch
    again.
    """
    return Path(os.environ.get("TIDEMILL_BENCH_CACHE", Path.home() / ".cache" / "tidemill-bench"))


def jars(directory: str, artifacts: Sequence[Artifact]) -> Path:
    """Return the folder with the artifacts and all their dependencies, which the first call fetches."""
    for program, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is not installed (Debian package {package})")
    home = cache_directory() / directory
    pom, done = home / "pom.xml", home / "fetched"
    wanted = pom_text(artifacts)
    if done.exists() and pom.read_text() == wanted:
        return home / "jars"
    home.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)
    shutil.rmtree(home / "jars", ignore_errors=True)
    pom.write_text(wanted)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={home / 'jars'}"]
    try:
        outcome = subprocess.run(
            [*command, "-DincludeScope=runtime"], capture_output=True, text=True, timeout=FETCH_SECONDS_MAX
        )
    except subprocess.TimeoutExpired as slow:
        raise Unavailable(f"Maven did not fetch {artifacts[0].name} within {FETCH_SECONDS_MAX} s") from slow
    if outcome.returncode != 0:
        errors = [line for line in outcome.stdout.splitlines() if "ERROR" in line]
        raise Unavailable(
            f"Maven could not fetch {artifacts[0].name}: {errors[0][:300] if errors else 'no reason given'}"
        )
    done.touch()
    return home / "jars"


def pom_text(artifacts: Sequence[Artifact]) -> str:
    dependencies = "".join(
        f"    <dependency><groupId>{artifact.group}</groupId><artifactId>{artifact.name}</artifactId>"
        f"<version>{artifact.version}</version>{_exclusions(artifact)}</dependency>\n"
        for artifact in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n  <modelVersion>4.0.0</modelVersion>\n'
        "  <groupId>tidemill</groupId><artifactId>benchmark</artifactId><version>1</version>\n"
        f"  <dependencies>\n{dependencies}  </dependencies>\n</project>\n"
    )


def _exclusions(artifact: Artifact) -> str:
    pairs = (name.split(":") for name in artifact.without)
    inner = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in pairs
    )
    return f"<exclusions>{inner}</exclusions>" if inner else ""
