"""Commands for Java programs, with Kafka's jars, as in the benchmarks, and JVM options for a short start-up."""

import subprocess
from functools import cache
from pathlib import Path

from benchmarks.apache_kafka import ARTIFACTS
from benchmarks.broker import Unavailable
from benchmarks.maven import jars

# These suit processes that run for seconds: little memory, and only the fast compiler.
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@cache
def command() -> tuple[str, ...]:
    """Return the command without the program.  Raise `Unavailable` if Java, Maven or the jars are missing."""
    return ("java", *OPTIONS, "-cp", f"{jars('kafka', ARTIFACTS)}/*")


@cache
def source_command(source: Path) -> tuple[str, ...]:
    """Return the command for a program in one source file.  Raise `Unavailable` also if there is no Java compiler."""
    before = command()
    modules = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        raise Unavailable("this Java cannot compile: module jdk.compiler is missing (Debian package openjdk-17-jdk)")
    return (*before, str(source))
