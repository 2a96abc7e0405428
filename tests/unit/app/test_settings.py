"""What a broker is started with, and what it refuses."""

from pathlib import Path

import pytest

from tidemill.app.listeners import Address, Listener, SettingRefused
from tidemill.app.settings import LOOPBACK_KEY, dev_settings, settings_from


def test_the_command_line_beats_the_environment_and_both_beat_the_file(tmp_path: Path) -> None:
    """
    Each key comes from the strongest source that has it.
    """
    file = tmp_path / "broker.yaml"
    file.write_text("broker.id: 1\nnum.partitions: 2\nlog.dirs: /file\n")
    environment = {
        "TIDEMILL_SET_NUM_PARTITIONS": "3",
        "TIDEMILL_SET_LOG_DIRS": "/environment",
        "TIDEMILL_BOOTSTRAP": "x",
    }

    settings = settings_from(file=str(file), environment=environment, sets=["log.dirs=/set"])

    assert {"broker.id": "1", "num.partitions": "3", "log.dirs": "/set"} == dict(settings.static)


def test_a_stronger_source_hides_the_synonyms_of_its_keys(tmp_path: Path) -> None:
    """
    Of several names for one thing Kafka prefers some; but who says `--set` means it.
    """
    file = tmp_path / "broker.yaml"
    file.write_text("log.retention.ms: 5\n")

    settings = settings_from(file=str(file), environment={}, sets=["log.retention.hours=2"])

    assert {"log.retention.hours": "2"} == dict(settings.static)


def test_text_in_the_file_stays_as_it_was_written(tmp_path: Path) -> None:
    """
    YAML's own idea of `on` or `1_0` plays no part; a list is a list of Kafka's.
    """
    file = tmp_path / "broker.yaml"
    file.write_text(
        "auto.create.topics.enable: false\nlisteners:\n  - A://127.0.0.1:0\n  - B://localhost:7\n"
        "listener.security.protocol.map: A:PLAINTEXT,B:PLAINTEXT\nadvertised.listeners: B://mill:9\n"
    )

    settings = settings_from(file=str(file), environment={}, sets=[])

    assert (
        Listener(name="A", bind=Address("127.0.0.1", 0)),
        Listener(name="B", bind=Address("localhost", 7), advertised=Address("mill", 9)),
    ) == settings.listeners


def test_ours_may_leave_out_their_prefix_in_the_environment() -> None:
    """
    `TIDEMILL_SET_JOURNAL_BYTES_MAX` means `tidemill.journal.bytes.max`.
    """
    settings = settings_from(file=None, environment={"TIDEMILL_SET_JOURNAL_BYTES_MAX": "1073741824"}, sets=[])

    assert {"tidemill.journal.bytes.max": "1073741824"} == dict(settings.static)


def test_dev_takes_three_options_and_the_environment() -> None:
    """
    What an option says is not overridden.
    """
    environment = {"TIDEMILL_SET_LOG_DIRS": "/elsewhere", "TIDEMILL_SET_NUM_PARTITIONS": "3"}

    settings = dev_settings(data="here", kafka="127.0.0.1:0", http="[::1]:0", environment=environment)

    assert ("here", Address("::1", 0), "3") == (
        settings.data_directory, settings.http, settings.static["num.partitions"],
    )  # fmt: skip


def test_keys_without_effect_are_known_so_that_they_can_be_told() -> None:
    """
    A broker names them once at its start.
    """
    settings = settings_from(file=None, environment={}, sets=["num.network.threads=3"])

    assert ("num.network.threads",) == settings.ineffective_keys


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("no.such.key=1", "no.such.key"),
        ("num.partitions=many", "num.partitions=many is refused: must be a whole number"),
        ("tidemill.join=a", "HOST:PORT is wanted"),
        ("tidemill.join=a:0", "host and port of a broker's tidemill.peer.listener"),
        ("listeners=PEER://127.0.0.1:1", "PEER is the name of tidemill.peer.listener"),
        ("listeners=HTTP://127.0.0.1:1", "HTTP is the name of tidemill.http.listener"),
        ("tidemill.peer.listener=here", "HOST:PORT is wanted"),
        ("tidemill.peer.listener=10.0.0.1:9093", "without tidemill.cluster.key anyone"),
        ("tidemill.peer.advertised=0.0.0.0:9093", "that other brokers shall connect to"),
        ("tidemill.peer.advertised=mill:0", "that other brokers shall connect to"),
        ("tidemill.cluster.key=", "an empty key does not protect the cluster"),
        ("nothing", "--set=nothing is refused: KEY=VALUE"),
        ("listeners=127.0.0.1:9092", "NAME://HOST:PORT is wanted"),
        ("listeners=PLAINTEXT://h", "HOST:PORT is wanted"),
        ("listeners=PLAINTEXT://::1:9", r"in brackets: \[::1\]:9"),
        ("listeners=SSL://127.0.0.1:0", "SSL speaks SSL, and only PLAINTEXT is built"),
        ("listeners=INNER://127.0.0.1:0", "add INNER:PLAINTEXT to listener.security.protocol.map"),
        ("listeners=PLAINTEXT://10.0.0.1:9092", "tidemill.insecure.bind=true"),
        ("listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners|insecure"),
        ("advertised.listeners=OTHER://h:1", "listeners has no OTHER"),
        ("advertised.listeners=PLAINTEXT://h:0", "name the host and port"),
        ("tidemill.http.listener=0.0.0.0:1", "tidemill.insecure.bind=true"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_key_the_value_and_the_fix(setting: str, why: str) -> None:
    """
    Before anything is opened.
    """
    with pytest.raises(SettingRefused, match=why):
        settings_from(file=None, environment={}, sets=[setting])


def test_a_variable_that_names_no_key_is_refused() -> None:
    """
    By the name that stands in the environment.
    """
    with pytest.raises(SettingRefused, match=r"TIDEMILL_SET_LOG_DRIS=/x is refused: there is no key log\.dris"):
        settings_from(file=None, environment={"TIDEMILL_SET_LOG_DRIS": "/x"}, sets=[])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "stands in the file twice"),
        ("log:\n  dirs: /x\n", "keys are flat"),
        ("- a\n", "lines of KEY: VALUE"),
        ("a: [\n", "it is not YAML"),
    ],
)
def test_a_file_that_is_no_list_of_keys_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """
    A key that stands twice would silently lose one of its values.
    """
    file = tmp_path / "broker.yaml"
    file.write_text(text)

    with pytest.raises(SettingRefused, match=why):
        settings_from(file=str(file), environment={}, sets=[])


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """
    Starting with defaults instead would found a broker in the wrong place.
    """
    with pytest.raises(SettingRefused, match="cannot be read"):
        settings_from(file=str(tmp_path / "none.yaml"), environment={}, sets=[])


def test_a_broker_alone_listens_for_others_on_this_machine() -> None:
    """
    With a key that everybody knows: on loopback it keeps out nobody but another cluster's mistake.
    """
    settings = settings_from(file=None, environment={}, sets=[])

    assert (Listener(name="PEER", bind=Address("127.0.0.1", 9093)), (), LOOPBACK_KEY) == (
        settings.peer,
        settings.join,
        settings.cluster_key,
    )


def test_a_broker_that_joins_is_told_where_to_ask_and_what_to_prove() -> None:
    """
    The key comes from the environment, where no list of processes shows it.
    """
    environment = {"TIDEMILL_SET_CLUSTER_KEY": "s3cret", "TIDEMILL_SET_JOIN": "a:9093, [::1]:7"}
    sets = [
        "tidemill.peer.listener=0.0.0.0:9093",
        "tidemill.peer.advertised=mill-2:9093",
        "tidemill.insecure.bind=true",
    ]

    settings = settings_from(file=None, environment=environment, sets=sets)

    assert Listener(name="PEER", bind=Address("0.0.0.0", 9093), advertised=Address("mill-2", 9093)) == settings.peer
    assert (("a:9093", "[::1]:7"), b"s3cret") == (settings.join, settings.cluster_key)


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (["tidemill.peer.listener=10.0.0.1:9093"], "not encrypted; bind to 127.0.0.1, or set tidemill.insecure.bind"),
        (["tidemill.peer.listener=0.0.0.0:9093", "tidemill.insecure.bind=true"], "set tidemill.peer.advertised"),
    ],
)
def test_a_key_alone_does_not_open_the_peer_listener(sets: list[str], why: str) -> None:
    """
    What is said there can be read by anyone on the way; and others must be able to reach it.
    """
    with pytest.raises(SettingRefused, match=why):
        settings_from(file=None, environment={}, sets=["tidemill.cluster.key=k", *sets])
