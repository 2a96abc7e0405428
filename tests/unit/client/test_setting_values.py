"""Values may refer to the environment or to files, and errors never show the contents of a reference."""

import pytest

from tidemill.client.failures import SettingsError
from tidemill.client.setting_values import SettingValues, is_reference


def test_a_reference_is_looked_up_at_each_read(monkeypatch, tmp_path):
    """
    `env:NAME` yields the value of the variable, and `file:PATH` the text of the file without its last line break.  Both
    are read at each use, so that the next connection uses a changed password.
    """
    path = tmp_path / "password"
    path.write_text("one\n")
    monkeypatch.setenv("A_USER", "alice")
    values = SettingValues({"sasl.username": "env:A_USER", "sasl.password": f"file:{path}"})

    first = values["sasl.username"], values["sasl.password"]
    path.write_text("two\r\n")

    assert (("alice", "one"), "two") == (first, values["sasl.password"])


def test_a_file_url_is_a_path(tmp_path):
    """
    `file:///PATH` is the same file as `file:/PATH`.
    """
    (tmp_path / "p").write_text("secret")

    assert "secret" == SettingValues({"sasl.password": f"file://{tmp_path / 'p'}"})["sasl.password"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bootstrap.servers", "env:9092"),
        ("bootstrap.servers", "file:9092"),
        ("sasl.oauthbearer.token.endpoint.url", "file:///var/run/token"),
        ("sasl.password", "environment:X"),
        ("sasl.password", "env:"),
    ],
)
def test_what_only_looks_like_a_reference_is_literal(key, value):
    """
    An address whose host is named `env` or `file`, and a file URL where Kafka expects one, are literal values.
    """
    assert (False, value) == (is_reference(key, value), SettingValues({key: value})[key])


def test_a_missing_variable_is_one_sentence_with_the_setting(monkeypatch):
    """
    If a reference names a variable that is not set, the error names the setting and the variable, and says where to set
    it.
    """
    monkeypatch.delenv("NO_SUCH", raising=False)
    expected = (
        "sasl.password=env:NO_SUCH: the environment variable NO_SUCH is not set, or empty, in a process that connects; "
        "set it before the Spark session starts, and with spark.executorEnv.NO_SUCH for executors"
    )

    with pytest.raises(SettingsError) as missing:
        SettingValues({"sasl.password": "env:NO_SUCH"}).text("sasl.password")

    assert expected == str(missing.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file or directory"), (b"\xff", "not UTF-8 text"), (b"\n", "1 to"), (b"x" * (1 << 21), "1 to")],
)
def test_an_unreadable_file_is_one_sentence_with_the_setting(tmp_path, content, reason):
    """
    A file that is missing, empty, too large or not text raises an error that names the setting and the file.
    """
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(SettingsError, match=rf"^sasl.password=file:{path}: the file .*{reason}"):
        SettingValues({"sasl.password": f"file:{path}"}).text("sasl.password")


def test_errors_show_references_and_hide_secrets(monkeypatch):
    """
    An error about a value shows a reference as it was written.  It shows neither a literal secret nor the value of an
    unknown security key, which may be a misspelt secret.
    """
    monkeypatch.setenv("TIMEOUT", "hunter2")
    values = SettingValues(
        {"request.timeout.ms": "env:TIMEOUT", "sasl.password": "hunter2", "sasl.pasword": "hunter2", "client.id": "me"}
    )

    with pytest.raises(SettingsError, match=r"request.timeout.ms=env:TIMEOUT must be a whole number") as wrong:
        values.number("request.timeout.ms", 1)

    assert "hunter2" not in str(wrong.value) + repr(values)
    assert ("sasl.password=(hidden)", "client.id=me") == (values.shown("sasl.password"), values.shown("client.id"))


def test_two_names_of_one_setting_must_agree():
    """
    A setting with two names may be set under both names if the values are the same.
    """
    both = {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}

    assert "PLAIN" == SettingValues(both).text("sasl.mechanism", "sasl.mechanisms")
    with pytest.raises(SettingsError, match=r"sasl.mechanism and sasl.mechanisms are one setting"):
        SettingValues({**both, "sasl.mechanism": "GSSAPI"}).text("sasl.mechanism", "sasl.mechanisms")
