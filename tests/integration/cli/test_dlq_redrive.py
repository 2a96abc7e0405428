"""Dead letters of a share group, from the rejected record to the record that is sent back."""

import json
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest

from tests.integration.cli.command import ENVIRONMENT, new_topic, tidemill
from tests.integration.cli.terminal import heed_interrupts, on_terminal
from tests.integration.cli.test_dlq import dead_letter_topic, letter, rows

ENABLED = "errors.deadletterqueue.group.enable"
TOPIC_NAME = "errors.deadletterqueue.topic.name"


def done(*arguments: str, bootstrap: str, stdin: bytes = b"") -> str:
    finished = tidemill(*arguments, bootstrap=bootstrap, stdin=stdin)
    assert 0 == finished.exit_code, finished.err
    return finished.out


def records(topic: str, bootstrap: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done("consume", topic, "--json", bootstrap=bootstrap).splitlines()]


def letters(origin: str, count: int) -> bytes:
    return b"".join(letter(origin, offset, value=f"v{offset}", trace="t") for offset in range(count))


def test_a_rejected_record_becomes_a_letter_and_is_sent_back_once(bootstrap: str) -> None:
    """
    A record that a share consumer rejects is in the dead-letter topic of its group, which `list` shows.  A redrive
    writes it to its topic again, without the headers of the letter; a second redrive sends nothing.
    """
    share_consumer = pytest.importorskip("confluent_kafka").ShareConsumer
    origin, target = new_topic(bootstrap), f"dlq.{uuid.uuid4().hex[:8]}"
    group = f"group-{uuid.uuid4().hex[:8]}"
    done("topics", "create", target, "--config", f"{ENABLED}=true", "--partitions", "2", bootstrap=bootstrap)
    done("configs", "set", "--group", group, f"{TOPIC_NAME}={target}", bootstrap=bootstrap)
    done("configs", "set", "--group", group, "share.auto.offset.reset=earliest", bootstrap=bootstrap)
    done("produce", origin, "--key-separator", ":", bootstrap=bootstrap, stdin=b"ann:1 cup\nbob:2 pots\n")
    reject_all(share_consumer, bootstrap, group, origin, count=2)

    (listed,) = [it for it in rows("list", bootstrap=bootstrap) if it["topic"] == target]
    (first,) = rows("redrive", target, bootstrap=bootstrap)
    (second,) = rows("redrive", target, bootstrap=bootstrap)

    assert (True, True, [group]) == (listed["exists"], listed["enabled"], listed["groups"])
    assert (2, 0, 0) == (first["sent"], first["sent_before"], first["waiting"])
    assert (0, 2, 0) == (second["sent"], second["sent_before"], second["waiting"])
    assert [("ann", "1 cup"), ("bob", "2 pots")] * 2 == [(it["key"], it["value"]) for it in records(origin, bootstrap)]


def reject_all(share_consumer: Any, bootstrap: str, group: str, topic: str, *, count: int) -> None:
    from confluent_kafka import AcknowledgeType

    consumer = share_consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    rejected = 0
    for _ in range(300):
        for message in consumer.poll(timeout=0.2) or []:
            assert message.error() is None
            consumer.acknowledge(message, AcknowledgeType.REJECT)
            rejected += 1
        consumer.commit_sync()
        if rejected >= count:
            break
    consumer.close()
    assert count == rejected


def test_letters_go_back_to_their_origin_without_their_headers(bootstrap: str) -> None:
    """
    Only the selected letters are sent back, each once; the record has its own headers and a count.
    """
    origin = new_topic(bootstrap)
    topic = dead_letter_topic(bootstrap, {0: letters(origin, 6), 1: letters(origin, 3)})

    (some,) = rows("redrive", topic, "--where", "offset >= 4", bootstrap=bootstrap)
    (rest,) = rows("redrive", topic, bootstrap=bootstrap)

    assert (2, 2, 0) == (some["selected"], some["sent"], some["waiting"])
    assert (9, 7, 2, 0) == (rest["selected"], rest["sent"], rest["sent_before"], rest["waiting"])
    sent = records(origin, bootstrap)
    assert ["v4", "v5"] == [it["value"] for it in sent[:2]]
    assert sorted([*(f"v{n}" for n in range(6)), *(f"v{n}" for n in range(3))]) == sorted(it["value"] for it in sent)
    assert [["trace", "t"], ["__redrive.count", "1"]] == sent[0]["headers"]


def test_letters_go_to_another_topic(bootstrap: str) -> None:
    """
    With --to, all letters go to that topic.  Their own topics are another redrive, which sends them, too.
    """
    origin, other = new_topic(bootstrap), new_topic(bootstrap, partitions=2)
    topic = dead_letter_topic(bootstrap, {0: letters(origin, 3), 1: letters("gone", 1)})

    (elsewhere,) = rows("redrive", topic, "--to", other, bootstrap=bootstrap)
    (back,) = rows("redrive", topic, bootstrap=bootstrap)

    assert (4, 0) == (elsewhere["sent"], elsewhere["waiting"])
    assert (3, {"unknown_topic": 1}) == (back["sent"], back["skipped"])
    assert (4, 3) == (len(records(other, bootstrap)), len(records(origin, bootstrap)))


def test_a_limit_is_that_of_new_letters(bootstrap: str) -> None:
    """
    With --max, each run sends the next letters.
    """
    origin = new_topic(bootstrap)
    topic = dead_letter_topic(bootstrap, {0: letters(origin, 5)})

    sent = [rows("redrive", topic, "--max", "2", bootstrap=bootstrap)[0]["sent"] for _ in range(4)]

    assert [2, 2, 1, 0] == sent
    assert [f"v{n}" for n in range(5)] == [it["value"] for it in records(origin, bootstrap)]


def test_the_command_asks_on_a_terminal(bootstrap: str) -> None:
    """
    The question says how many letters go where.  Without a yes, nothing is sent.
    """
    origin = new_topic(bootstrap)
    topic = dead_letter_topic(bootstrap, {0: letters(origin, 2)})

    refused = on_terminal("dlq", "redrive", topic, bootstrap=bootstrap, answer="n")
    agreed = on_terminal("dlq", "redrive", topic, bootstrap=bootstrap, answer="y")

    assert 1 == refused.exit_code and "nothing was sent back" in refused.out
    assert f"Send 2 letters of {topic} to {origin} (2)? [y/N]:" in " ".join(refused.out.split())
    assert 0 == agreed.exit_code and "sent back 2 letters" in agreed.out
    assert 2 == len(records(origin, bootstrap))


def test_an_interrupted_redrive_goes_on(bootstrap: str) -> None:
    """
    After Ctrl-C the command says how to go on; the next run sends the rest, and no letter twice.
    """
    origin = new_topic(bootstrap)
    topic = dead_letter_topic(bootstrap, {0: letters(origin, 40)})
    command = [sys.executable, "-m", "tidemill", "dlq", "redrive", topic, "--rate", "5/s", "--json"]
    environment = ENVIRONMENT | {"TIDEMILL_BOOTSTRAP": bootstrap}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, preexec_fn=heed_interrupts, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if '"sending back"' in line:
                break
        assert any(records(origin, bootstrap) for _ in range(60)), "no letter was sent back"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)

    (rest,) = rows("redrive", topic, bootstrap=bootstrap)

    assert 130 == process.returncode
    assert "run the same command again to go on: it sends no letter twice" in errors
    assert 40 == rest["sent"] + rest["sent_before"] and 0 < rest["sent"] < 40
    assert [f"v{n}" for n in range(40)] == [it["value"] for it in records(origin, bootstrap)]
