"""The tables of configuration keys are complete and consistent, and refusals name the key, the value and the fix."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tidemill.model import errors
from tidemill.model.config_key import ConfigKey, KeySupport, Update, parse
from tidemill.model.config_keys import (
    BROKER_KEYS,
    BROKER_SYNONYMS,
    GROUP_KEYS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    known_key,
    parse_named,
)
from tidemill.model.config_types import ConfigType, ConfigValue, text_of_value, value_of_text
from tidemill.model.errors import KafkaError

EVERY_KEY = [*TOPIC_KEYS.values(), *BROKER_KEYS.values(), *GROUP_KEYS.values()]
SHARED = "min.insync.replicas"  # a name that is both a topic key and a broker key


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_a_default_is_legal_and_comes_back_from_its_text(key: ConfigKey) -> None:
    """Every default is legal and parses back from its text, so the values that DescribeConfigs shows can be set."""
    shown = key.default_text

    back = None if shown is None else parse(key, shown)

    assert key.default == back


@pytest.mark.parametrize("key", EVERY_KEY, ids=lambda key: key.name)
def test_a_key_is_documented_in_a_sentence(key: ConfigKey) -> None:
    """Every key has a sentence of documentation that says what it does in Tidemill, or why it has no effect."""
    sentence = key.documentation

    assert sentence.endswith(".")
    assert (key.support is KeySupport.OBEYED) == (not sentence.startswith(("Accepted", "Only the default")))


def test_every_key_of_kafka_is_known() -> None:
    """
    The tables contain every key of Kafka 4.3: 360 static and three dynamic broker keys, 34 topic keys and 17 group
    keys, and five keys of KIP-1191.
    """
    theirs = [
        [name for name in keys if not name.startswith("tidemill.")] for keys in (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS)
    ]

    assert [len(names) for names in theirs] == [365, 35, 19]


def test_synonyms_are_keys() -> None:
    """Every synonym of a topic key is a broker key with the same type of value."""
    named = [(topic, broker) for topic, synonyms in TOPIC_SYNONYMS.items() for broker, _ in synonyms]

    numbers = (ConfigType.INT, ConfigType.LONG)
    for topic, broker in named:
        types = {TOPIC_KEYS[topic].type, BROKER_KEYS[broker].type}
        assert len(types) == 1 or types <= set(numbers), topic
    assert set(BROKER_SYNONYMS) <= set(BROKER_KEYS)


def test_a_key_that_needs_a_restart_is_not_dynamic() -> None:
    """Keys of TLS, SASL and listeners, which are read only at start-up, are not dynamic.

    Of Tidemill's own keys, only those of re-placement are read while the broker runs.
    """
    replacement = ("tidemill.rebalance.", "tidemill.replica.", "tidemill.broker.", "tidemill.load.")
    keys = {name: key for name, key in BROKER_KEYS.items() if not name.startswith(replacement)}
    dynamic = [name for name, key in keys.items() if key.update is not Update.READ_ONLY]

    assert not [name for name in dynamic if name.startswith(("ssl.", "sasl.", "listener", "tidemill."))]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " -1 ", -1),
        ("retention.ms", "+5", 5),
        ("min.cleanable.dirty.ratio", ".5", 0.5),
        ("preallocate", "TRUE", True),
        ("cleanup.policy", " delete ", ("delete",)),
        ("leader.replication.throttled.replicas", "", ()),
        ("leader.replication.throttled.replicas", "0:1 , 1:1", ("0:1", "1:1")),
        ("message.timestamp.type", "LogAppendTime", "LogAppendTime"),
        ("tidemill.kind", "log", "log"),
        ("tidemill.kind", "timer", "timer"),
        ("unclean.leader.election.enable", "false", False),
    ],
)
def test_text_is_parsed_to_a_value(name: str, text: str, value: ConfigValue) -> None:
    """The text of a setting is parsed to a value, without the whitespace around it, as in Kafka."""
    parsed = parse_named(TOPIC_KEYS, name, text)

    assert value == parsed


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("retention.ms", "-2", "retention.ms=-2 is refused: must be at least -1"),
        ("retention.ms", "1_000", "a whole number of type LONG"),
        ("retention.ms", "٣", "a whole number of type LONG"),
        ("retention.ms", "9223372036854775808", "a whole number of type LONG"),
        ("retention.ms", "9" * 5_000, "a whole number of type LONG"),
        ("retention.ms", "1" * 40_000, "at most 32767 characters"),
        ("segment.bytes", "1048575", "must be at least 1048576"),
        ("segment.bytes", "2147483648", "a whole number of type INT"),
        ("min.cleanable.dirty.ratio", "1.5", "must be at most 1"),
        ("min.cleanable.dirty.ratio", "nan", "must be a decimal number"),
        ("preallocate", "yes", "must be true or false"),
        ("message.timestamp.type", "now", "must be one of CreateTime, LogAppendTime"),
        ("cleanup.policy", "shrink", "must be one of compact, delete"),
        ("cleanup.policy", "delete,delete", "appears twice"),
        ("cleanup.policy", "compact", "keyed topics"),
        ("unclean.leader.election.enable", "true", "leave it out, or use 'false'"),
        ("compression.type", "none", "must be one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression.gzip.level", "0", "must be -1, the default of gzip, or 1 to 9"),
        ("compression.lz4.level", "18", "must be at most 17"),
        ("compression.zstd.level", "23", "must be at most 22"),
        ("tidemill.kind", "keyed", "keyed topics are not implemented yet; use log or timer"),
        ("retention.mss", "1", "unknown configuration key 'retention.mss'; did you mean retention.ms?"),
        ("log.retention.ms", "1", "unknown configuration key 'log.retention.ms'; did you mean retention.ms?"),
        ("message.max.bytes", "1", "did you mean max.message.bytes?"),
        ("zzz", "1", "unknown configuration key 'zzz'"),
    ],
)
def test_a_refusal_names_key_value_and_fix(name: str, text: str, says: str) -> None:
    """A refusal names the key, the value and the fix, so that the user need not look anything up."""
    with pytest.raises(KafkaError) as refused:
        parse_named(TOPIC_KEYS, name, text)

    assert refused.value.error_code == errors.INVALID_CONFIG
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("log.dirs", "a,b", "exactly one directory"),
        ("log.retention.ms", "0", "must be -1 (keep all) or at least 1"),
        ("process.roles", "broker,controller", "no roles to choose; leave it out"),
        ("authorizer.class.name", "org.acme.Authorizer", "a Java class cannot run here"),
        ("ssl.keystore.password", "secret", "ssl.keystore.password=(hidden) is refused"),
        ("unclean.leader.election.enable", "true", "would lose them"),
        ("tidemill.cluster.key", " ", "an empty key does not protect the cluster"),
    ],
)
def test_a_setting_that_cannot_be_honoured_is_refused(name: str, text: str, says: str) -> None:
    """A setting is refused if ignoring it would mislead the user.  The refusal does not reveal a secret value."""
    with pytest.raises(KafkaError) as refused:
        parse_named(BROKER_KEYS, name, text)

    assert says in refused.value.message
    assert "secret" not in refused.value.message


@given(st.sampled_from(EVERY_KEY), st.text(max_size=30))
def test_any_text_is_a_value_or_is_refused(key: ConfigKey, text: str) -> None:
    """Arbitrary text raises nothing but a refusal, and the text of a parsed value parses to the same value."""
    try:
        value = parse(key, text)
    except KafkaError as refused:
        assert key.name in refused.message
    else:
        assert value == parse(key, text_of_value(value) or "")


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_long_is_a_value(number: int) -> None:
    """A LONG key accepts the whole range of its type."""
    text = text_of_value(number)

    assert number == value_of_text(ConfigType.LONG, text or "")


def test_a_topic_key_and_a_broker_key_may_share_a_name() -> None:
    """A topic key and a broker key of the same name are different keys, and the topic key is always dynamic."""
    keys = (known_key(TOPIC_KEYS, SHARED), known_key(BROKER_KEYS, SHARED))

    assert [key.name for key in keys] == [SHARED, SHARED]
    assert keys[0] is not keys[1]
