"""Runs Apache Kafka's own commands by the names of their scripts, each in its own JVM."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from conformance import jvm

SECONDS_MAX = 120.0  # a JVM needs two seconds on an idle machine; a command that takes minutes hangs
TOOLS = MappingProxyType({
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
})  # fmt: skip


class Failed(Exception):
    """A command ended with an exit code other than 0.  The message is everything that it printed."""


@dataclass(frozen=True, slots=True)
class KafkaTools:
    bootstrap: str
    option: str = "--bootstrap-server"  # or "--bootstrap-controller", for Kafka's separate controllers

    def run(self, tool: str, *arguments: str, stdin: str = "") -> list[str]:
        """Run a command and return the lines that it printed on stdout, without empty ones."""
        ran = self._run(tool, arguments, stdin)
        if ran.returncode:
            raise Failed(ran.stdout + ran.stderr)
        return [line.rstrip() for line in ran.stdout.splitlines() if line.strip()]

    def complaint(self, tool: str, *arguments: str) -> str:
        """
        Run a command and return everything that it printed, whatever its exit code, since some commands fail with 0.
        """
        ran = self._run(tool, arguments)
        return ran.stdout + ran.stderr

    def _run(self, tool: str, arguments: tuple[str, ...], stdin: str = "") -> "subprocess.CompletedProcess[str]":
        verb = arguments[:1] if tool == "kafka-cluster" else ()  # this command accepts the address only after the verb
        command = [*jvm.command(), TOOLS[tool], *verb, self.option, self.bootstrap, *arguments[len(verb) :]]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX)


def reassignment_file(path: Path, topic: str, goals: Mapping[int, Sequence[int]]) -> tuple[str, str]:
    """Write the brokers of partitions to a file, and return the option with which a command reads it."""
    partitions = [{"topic": topic, "partition": number, "replicas": list(goal)} for number, goal in goals.items()]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return "--reassignment-json-file", str(path)
