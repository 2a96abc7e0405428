"""What Java programs need here: Kafka's jars, as the benchmarks have them, and a JVM that is soon up."""

import subprocess
from functools import cache
from pathlib import Path

from benchmarks.apache_kafka import ARTIFACTS
from benchmarks.broker import Unavailable
from benchmarks.maven import jars

# For processes that live for seconds: little memory, and no time for the better compiler.
OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@cache
def command() -> tuple[str, ...]:
    """What comes before the program; raises `Unavailable` where Java, Maven or the jars cannot be had."""
    return ("java", *OPTIONS, "-cp", f"{jars('kafka', ARTIFACTS)}/*")


@cache
def source_command(source: Path) -> tuple[str, ...]:
    """For a program in one file, which Java compiles as it starts; raises `Unavailable` without a compiler, too."""
    before = command()
    modules = subprocess.run(["java", "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler@" not in modules:
        raise Unavailable("this Java cannot compile: module jdk.compiler is missing (Debian package openjdk-17-jdk)")
    return (*before, str(source))
