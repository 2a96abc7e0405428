"""Apache Kafka's Java client, whose driver is compiled by `java` at the start."""

from collections.abc import Sequence
from pathlib import Path

from conformance import jvm
from conformance.driven_client import DrivenClient

DRIVER = Path(__file__).parent / "java" / "ClientDriver.java"


class JavaClient(DrivenClient):
    name = "java"

    @staticmethod
    def command() -> Sequence[str]:
        return jvm.source_command(DRIVER)
