"""The settings of a broker, and which of them it refuses."""

from pathlib import Path

import pytest

from tidemill.app.listeners import Address, Listener, SettingRefused
from tidemill.app.settings import LOOPBACK_KEY, dev_settings, settings_from


def test_the_command_line_overrides_the_environment_and_the_file(tmp_path: Path) -> None:
    """A key has the value from the strongest source that sets it: the command line, then the environment, then the
    file.
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


def test_a_stronger_source_overrides_synonyms(tmp_path: Path) -> None:
    """A stronger source overrides a weaker one even if the weaker one uses a synonym that Kafka prefers."""
    file = tmp_path / "broker.yaml"
    file.write_text("log.retention.ms: 5\n")

    settings = settings_from(file=str(file), environment={}, sets=["log.retention.hours=2"])

    assert {"log.retention.hours": "2"} == dict(settings.static)


def test_values_in_the_file_stay_as_written(tmp_path: Path) -> None:
    """Values such as `on` or `1_0` keep their text instead of being interpreted as YAML, and a sequence becomes a list
    in Kafka's format.
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


def test_environment_variables_may_omit_the_tidemill_prefix() -> None:
    """Environment variables may omit the prefix: `TIDEMILL_SET_JOURNAL_BYTES_MAX` sets `tidemill.journal.bytes.max`."""
    settings = settings_from(file=None, environment={"TIDEMILL_SET_JOURNAL_BYTES_MAX": "1073741824"}, sets=[])

    assert {"tidemill.journal.bytes.max": "1073741824"} == dict(settings.static)


def test_the_options_of_dev_override_the_environment() -> None:
    """The options of `tidemill dev` override the environment, from which all other settings come."""
    environment = {"TIDEMILL_SET_LOG_DIRS": "/elsewhere", "TIDEMILL_SET_NUM_PARTITIONS": "3"}

    settings = dev_settings(data="here", kafka="127.0.0.1:0", http="[::1]:0", environment=environment)

    assert ("here", Address("::1", 0), "3") == (
        settings.data_directory, settings.http, settings.static["num.partitions"],
    )  # fmt: skip


def test_groups_of_a_dev_broker_do_not_wait_for_more_members() -> None:
    """The environment overrides the delay of `tidemill dev`, and `tidemill broker` has Kafka's default."""
    key, chosen = "group.initial.rebalance.delay.ms", {"TIDEMILL_SET_GROUP_INITIAL_REBALANCE_DELAY_MS": "700"}
    delays = [
        dev_settings(data="here", kafka="127.0.0.1:0", http="127.0.0.1:0", environment=environment).static[key]
        for environment in ({}, chosen)
    ]

    assert ["0", "700"] == delays
    assert key not in settings_from(file=None, environment={}, sets=[]).static


def test_keys_without_effect_are_collected() -> None:
    """Keys that have no effect are collected in the settings, and the broker logs them once at its start."""
    settings = settings_from(file=None, environment={}, sets=["num.network.threads=3"])

    assert ("num.network.threads",) == settings.ineffective_keys


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("no.such.key=1", "no.such.key"),
        ("num.partitions=many", "num.partitions=many is refused: must be a whole number"),
        ("tidemill.join=a", "write HOST:PORT, for example 127.0.0.1:9070$"),
        ("tidemill.join=a:0", "host and port of another broker's tidemill.peer.listener"),
        ("tidemill.join=127.0.0.1:9070", "this broker's own tidemill.peer.listener; name another broker, or leave it"),
        ("listeners=PEER://127.0.0.1:1", "the name PEER is reserved for tidemill.peer.listener"),
        ("listeners=HTTP://127.0.0.1:1", "the name HTTP is reserved for tidemill.http.listener"),
        ("tidemill.peer.listener=here", "write HOST:PORT, for example 127.0.0.1:9070; port 0 selects a free port"),
        ("tidemill.peer.listener=10.0.0.1:9070", "without tidemill.cluster.key anyone"),
        ("tidemill.peer.advertised=0.0.0.0:9070", "that other brokers connect to"),
        ("tidemill.peer.advertised=mill:0", "that other brokers connect to"),
        ("tidemill.cluster.key=", "an empty key does not protect the cluster"),
        ("nothing", "--set=nothing is refused: write KEY=VALUE"),
        ("listeners=127.0.0.1:9092", "write NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://h", "write HOST:PORT"),
        ("listeners=PLAINTEXT://::1:9", r"in brackets: \[::1\]:9"),
        ("listeners=SSL://127.0.0.1:0", "SSL uses SSL, but only PLAINTEXT is implemented"),
        ("listeners=INNER://127.0.0.1:0", "listener.security.protocol.map does not contain INNER; add INNER:PLAINTEXT"),
        ("listeners=PLAINTEXT://10.0.0.1:9092", "tidemill.insecure.bind=true"),
        ("listeners=PLAINTEXT://0.0.0.0:9092", "advertised.listeners|insecure"),
        ("advertised.listeners=OTHER://h:1", "listeners does not contain OTHER"),
        ("advertised.listeners=PLAINTEXT://h:0", "set the host and port"),
        ("tidemill.http.listener=0.0.0.0:1", "tidemill.insecure.bind=true"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_key_the_value_and_the_fix(setting: str, why: str) -> None:
    """A refusal names the key, the value and the fix, and no file or socket has been opened before the refusal."""
    with pytest.raises(SettingRefused, match=why):
        settings_from(file=None, environment={}, sets=[setting])


def test_an_environment_variable_without_a_key_is_refused() -> None:
    """An environment variable that matches no key is refused, and the message names the variable."""
    with pytest.raises(SettingRefused, match=r"TIDEMILL_SET_LOG_DRIS=/x is refused: there is no key log\.dris"):
        settings_from(file=None, environment={"TIDEMILL_SET_LOG_DRIS": "/x"}, sets=[])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2\n", "is in the file twice"),
        ("log:\n  dirs: /x\n", "keys are flat"),
        ("- a\n", "lines of KEY: VALUE"),
        ("a: [\n", "it is not YAML"),
    ],
)
def test_a_malformed_configuration_file_is_refused(tmp_path: Path, text: str, why: str) -> None:
    """A malformed file is refused, and so is a file with a duplicate key, because one of the two values would be lost
    silently.
    """
    file = tmp_path / "broker.yaml"
    file.write_text(text)

    with pytest.raises(SettingRefused, match=why):
        settings_from(file=str(file), environment={}, sets=[])


def test_all_wrong_settings_of_a_file_are_shown_at_once(tmp_path: Path) -> None:
    """
    Each error names the line of the file, the key, the value and the fix.  An error about a value from a
    source with higher precedence than the file names no line.
    """
    file = tmp_path / "broker.yaml"
    file.write_text("num.partitions: many\nlog.dirs: /x\nlog.dris: /y\nlog:\n  dirs: /z\nnum.io.threads: 0\n")

    with pytest.raises(SettingRefused) as refused:
        settings_from(file=str(file), environment={}, sets=["num.io.threads=-1"])

    first, *lines = str(refused.value).splitlines()
    assert "4 settings are refused:" == first
    starts = (
        f"  {file}:4: log={{…}} is refused: keys are flat",
        f"  {file}:1: num.partitions=many is refused: ",
        f"  {file}:3: unknown configuration key 'log.dris'; did you mean log.dirs?",
        "  num.io.threads=-1 is refused: ",
    )
    assert len(starts) == len(lines)
    assert all(line.startswith(start) for line, start in zip(lines, starts, strict=True)), lines


def test_all_wrong_listeners_are_shown_at_once(tmp_path: Path) -> None:
    """Addresses are checked once every key has a legal value, and each error names the line of its key."""
    file = tmp_path / "broker.yaml"
    file.write_text("listeners: PLAINTEXT://here\ntidemill.http.listener: there\ntidemill.join: nowhere\n")

    with pytest.raises(SettingRefused) as refused:
        settings_from(file=str(file), environment={}, sets=[])

    assert [f"{file}:2", f"{file}:1", f"{file}:3"] == [
        line.partition(": ")[0].strip() for line in str(refused.value).splitlines()[1:]
    ]


def test_a_missing_configuration_file_is_refused(tmp_path: Path) -> None:
    """A missing file is an error, because a broker that starts with defaults would use the wrong directory."""
    with pytest.raises(SettingRefused, match="cannot be read"):
        settings_from(file=str(tmp_path / "none.yaml"), environment={}, sets=[])


def test_the_default_peer_listener_is_on_loopback() -> None:
    """If it is not configured, the peer listener is on loopback.  The default cluster key is public and only prevents
    accidental links.
    """
    settings = settings_from(file=None, environment={}, sets=[])

    assert (Listener(name="PEER", bind=Address("127.0.0.1", 9070)), (), LOOPBACK_KEY) == (
        settings.peer,
        settings.join,
        settings.cluster_key,
    )


def test_the_settings_of_a_joining_broker() -> None:
    """A joining broker can get its cluster key from the environment, so that the key does not appear in the process
    list.
    """
    environment = {"TIDEMILL_SET_CLUSTER_KEY": "s3cret", "TIDEMILL_SET_JOIN": "a:9070, [::1]:7"}
    sets = [
        "tidemill.peer.listener=0.0.0.0:9070",
        "tidemill.peer.advertised=mill-2:9070",
        "tidemill.insecure.bind=true",
    ]

    settings = settings_from(file=None, environment=environment, sets=sets)

    assert Listener(name="PEER", bind=Address("0.0.0.0", 9070), advertised=Address("mill-2", 9070)) == settings.peer
    assert (("a:9070", "[::1]:7"), b"s3cret") == (settings.join, settings.cluster_key)


@pytest.mark.parametrize("own", ["0.0.0.0:7", "mill-2:8"])
def test_a_broker_does_not_join_itself(own: str) -> None:
    """All brokers of a cluster may have the same tidemill.join, because each broker ignores its own addresses in it."""
    sets = [
        f"tidemill.join=mill-1:8,{own}",
        "tidemill.peer.listener=0.0.0.0:7",
        "tidemill.peer.advertised=mill-2:8",
        "tidemill.cluster.key=k",
        "tidemill.insecure.bind=true",
    ]
    if own.startswith("0.0.0.0"):
        sets = [sets[0].replace("0.0.0.0", "127.0.0.1"), "tidemill.peer.listener=127.0.0.1:7"]

    assert ("mill-1:8",) == settings_from(file=None, environment={}, sets=sets).join


@pytest.mark.parametrize(
    ("sets", "why"),
    [
        (["tidemill.peer.listener=10.0.0.1:9070"], "not encrypted; bind to 127.0.0.1, or set tidemill.insecure.bind"),
        (["tidemill.peer.listener=0.0.0.0:9070", "tidemill.insecure.bind=true"], "set tidemill.peer.advertised"),
    ],
)
def test_a_cluster_key_alone_is_not_enough_for_a_public_peer_listener(sets: list[str], why: str) -> None:
    """A public peer listener needs more than a cluster key: consent to unencrypted traffic, and an address to
    advertise.
    """
    with pytest.raises(SettingRefused, match=why):
        settings_from(file=None, environment={}, sets=["tidemill.cluster.key=k", *sets])
