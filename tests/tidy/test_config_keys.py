"""Tidemill's code reads every configuration key that is declared to have an effect."""

import pytest

from tests.tidy.tree import files
from tidemill.model.config_key import KeySupport
from tidemill.model.config_keys import (
    BROKER_KEYS,
    BROKER_SYNONYMS,
    GROUP_KEYS,
    GROUP_SYNONYMS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
)

READERS = "".join(path.read_text() for path in files() if not path.name.endswith(("config_keys.py", "config_key.py")))
OBEYED = sorted(
    {
        key.name
        for keys in (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS)
        for key in keys.values()
        if key.support is KeySupport.OBEYED
    }
)


def names_of(key: str) -> set[str]:
    """Return the key, its synonyms, and the topic and group keys that take their default from it."""
    topics = {topic for topic, synonyms in TOPIC_SYNONYMS.items() if key in {name for name, _ in synonyms}}
    groups = {group for group, broker_key in GROUP_SYNONYMS.items() if key == broker_key}
    return {key, *BROKER_SYNONYMS.get(key, ()), *topics, *groups}


@pytest.mark.parametrize("key", OBEYED)
def test_a_key_that_is_obeyed_is_read(key: str) -> None:
    """
    The code reads every key whose declaration says that it is obeyed.  A key that is never read must be declared as
    accepted without effect, with a reason.
    """
    read = [name for name in names_of(key) if f'"{name}"' in READERS]

    assert read, f"{key} is never read"
