"""A configuration key: its meaning, its legal values, and whether Tidemill obeys it.

Users have configuration files and scripts that were written for Kafka.  Tidemill treats each of Kafka's keys in one of
three ways.  A key is *obeyed*, *accepted without effect* if ignoring it does no harm, or *refused* if ignoring it would
break a promise that the user relies on.  Every key that is not obeyed states a reason.  A refused key may still be set
to its default, because that changes nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tidemill.model import errors
from tidemill.model.config_types import ConfigType, ConfigValue, text_of_value, value_of_text
from tidemill.model.errors import KafkaError

TEXT_LENGTH_MAX: Final = 32_767  # in characters, as for Kafka's legacy strings; every broker keeps all values in memory

# Reasons why a key is not obeyed, shared by several tables of keys.
JAVA: Final = "a Java class cannot run here"
OWN_CONSENSUS: Final = "Tidemill's own consensus runs replication and the controller, with fixed bounds"


class KeySupport(StrEnum):
    OBEYED = "obeyed"
    WITHOUT_EFFECT = "accepted without effect"
    REFUSED = "refused"


class Update(StrEnum):
    """The dynamic update mode of a broker key, as in Kafka.  Topic and group keys can always be changed."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"  # can be set for one broker, or as the default for the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: ConfigValue
    support: KeySupport
    text: str  # what the key does, as a sentence; or why it is not obeyed, without a full stop
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()  # the legal values of a STRING, or of each item of a LIST
    check: Callable[[ConfigValue], str | None] | None = None  # returns what is wrong with a value, or None
    update: Update = Update.READ_ONLY
    internal: bool = False  # one of Kafka's internal keys, for Kafka's own tests: accepted, but not listed

    @property
    def documentation(self) -> str:
        match self.support:
            case KeySupport.OBEYED:
                return self.text
            case KeySupport.WITHOUT_EFFECT:
                return f"Accepted without effect: {self.text}."
            case KeySupport.REFUSED:
                return f"Only the default is accepted: {self.text}."

    @property
    def default_text(self) -> str | None:
        return text_of_value(self.default)

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def is_dynamic(self) -> bool:
        return self.update is not Update.READ_ONLY


def parse(key: ConfigKey, text: str) -> ConfigValue:
    """
    Return the value that `text` represents.

    Raise KafkaError (INVALID_CONFIG) if `text` is not legal for `key`.  The message names the key, the value and the
    fix.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise refusal(key, text[:40] + "…", f"a value has at most {TEXT_LENGTH_MAX} characters")
    try:
        value = value_of_text(key.type, text)
    except ValueError as requirement:
        raise refusal(key, text, str(requirement)) from None
    problem = _problem(key, value)
    if problem:
        raise refusal(key, text, problem)
    if key.support is KeySupport.REFUSED and value != key.default:
        accepted = "leave it out" if key.default is None else f"leave it out, or use {key.default_text!r}"
        raise refusal(key, text, f"{key.text}; {accepted}")
    return value


def refusal(key: ConfigKey, text: str, why: str) -> KafkaError:
    shown = "(hidden)" if key.is_sensitive else text
    return KafkaError(errors.INVALID_CONFIG, f"{key.name}={shown} is refused: {why}")


def _problem(key: ConfigKey, value: ConfigValue) -> str | None:
    if key.choices:
        items = value if isinstance(value, tuple) else (value,)
        if any(item not in key.choices for item in items):
            return f"must be one of {', '.join(key.choices)}"
    if isinstance(value, tuple) and len(set(value)) != len(value):
        return "an item appears twice"
    if isinstance(value, int | float) and not isinstance(value, bool):
        if key.at_least is not None and value < key.at_least:
            return f"must be at least {key.at_least}"
        if key.at_most is not None and value > key.at_most:
            return f"must be at most {key.at_most}"
    return key.check(value) if key.check else None


def obeyed(
    name: str,
    config_type: ConfigType,
    default: ConfigValue,
    text: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    check: Callable[[ConfigValue], str | None] | None = None,
    update: Update = Update.READ_ONLY,
    internal: bool = False,
) -> ConfigKey:
    """Return a key that Tidemill obeys; `text` is a sentence that says what the key does."""
    return ConfigKey(
        name=name,
        type=config_type,
        default=default,
        support=KeySupport.OBEYED,
        text=text,
        at_least=at_least,
        at_most=at_most,
        choices=choices,
        check=check,
        update=update,
        internal=internal,
    )


def without_effect(
    name: str,
    config_type: ConfigType,
    default: ConfigValue,
    reason: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[str, ...] = (),
    update: Update = Update.READ_ONLY,
    internal: bool = False,
) -> ConfigKey:
    """Return a key that is checked, stored and described but ignored; `reason` says why that does no harm."""
    return ConfigKey(
        name=name,
        type=config_type,
        default=default,
        support=KeySupport.WITHOUT_EFFECT,
        text=reason,
        at_least=at_least,
        at_most=at_most,
        choices=choices,
        update=update,
        internal=internal,
    )


def refused(
    name: str,
    config_type: ConfigType,
    default: ConfigValue,
    reason: str,
    *,
    choices: tuple[str, ...] = (),
    check: Callable[[ConfigValue], str | None] | None = None,
    update: Update = Update.READ_ONLY,
    internal: bool = False,
) -> ConfigKey:
    """Return a key that accepts only its default; `reason` says why."""
    return ConfigKey(
        name=name,
        type=config_type,
        default=default,
        support=KeySupport.REFUSED,
        text=reason,
        choices=choices,
        check=check,
        update=update,
        internal=internal,
    )
