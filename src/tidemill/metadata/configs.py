"""Decides changes to the dynamic configuration: IncrementalAlterConfigs and AlterConfigs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidemill.metadata.image import ClusterImage
from tidemill.metadata.insync import check_min_insync
from tidemill.metadata.kind_settings import check_kind_settings
from tidemill.metadata.metadata_records import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    ConfigResource,
    Record,
)
from tidemill.metadata.result import DecisionContext, Problem, Result
from tidemill.model import errors
from tidemill.model.config_key import ConfigKey, Update, parse, refusal
from tidemill.model.config_keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, known_key
from tidemill.model.config_resolution import resolve_broker, resolve_group, resolve_topic
from tidemill.model.config_types import ConfigType, text_of_value, value_of_text
from tidemill.model.errors import KafkaError
from tidemill.model.share_group_config import check_share_group_settings
from tidemill.model.topic_kind import KIND, TopicKind, kind_of

SUGGESTIONS_MAX: Final = 10  # requests for more items come from programs, so their errors do not suggest similar keys


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, with Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Change:
    key: str
    operation: Operation
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigs:
    resources: tuple[tuple[ConfigResource, tuple[Change, ...]], ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """Replace all existing settings of each resource with the given settings."""

    resources: tuple[tuple[ConfigResource, tuple[tuple[str, str | None], ...]], ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredResource:
    resource: ConfigResource
    problem: Problem | None = None


def incremental_alter_configs(
    context: DecisionContext, command: IncrementalAlterConfigs
) -> Result[tuple[AlteredResource, ...]]:
    return _alter_each(context, command.resources, validate_only=command.validate_only)


def alter_configs(context: DecisionContext, command: AlterConfigs) -> Result[tuple[AlteredResource, ...]]:
    resources = []
    for resource, settings in command.resources:
        given = {key for key, _ in settings}
        changes = [Change(key, Operation.SET, value) for key, value in settings]
        for key in context.image.configs.get(resource, {}):
            if key not in given and key != KIND:
                changes.append(Change(key, Operation.DELETE, None))
        resources.append((resource, tuple(changes)))
    return _alter_each(context, tuple(resources), validate_only=command.validate_only)


def check_topic_settings(settings: Sequence[tuple[str, str | None]], *, suggest: bool) -> dict[str, str]:
    """Return the settings of a new topic.

    Raises KafkaError (INVALID_CONFIG) for the first setting that has an unknown key, or an invalid or null value, or
    that does not fit the kind of the topic.
    """
    checked: dict[str, str] = {}
    for name, value in settings:
        if value is None:
            raise KafkaError(errors.INVALID_CONFIG, f"{name} has no value; leave the key out to get its default")
        parse(known_key(TOPIC_KEYS, name, suggest=suggest), value)
        checked[name] = value.strip()
    check_kind_settings(kind_of(checked), checked)
    return checked


def _alter_each(
    context: DecisionContext, resources: tuple[tuple[ConfigResource, tuple[Change, ...]], ...], *, validate_only: bool
) -> Result[tuple[AlteredResource, ...]]:
    """Alter each resource completely or not at all; a rejected resource does not affect the others."""
    times_named = Counter(resource for resource, _ in resources)
    records: list[Record] = []
    answers: dict[ConfigResource, AlteredResource] = {}
    suggest = len(resources) <= SUGGESTIONS_MAX
    for resource, changes in resources:
        try:
            if times_named[resource] > 1:
                raise KafkaError(errors.INVALID_REQUEST, f"resource {resource.name!r} is named more than once")
            made = _config_records(context, resource, changes, suggest=suggest)
        except KafkaError as refused:
            problem = Problem(refused.error_code, refused.message)
            answers[resource] = AlteredResource(resource=resource, problem=problem)
            continue
        records += made
        answers[resource] = AlteredResource(resource=resource)
    return Result(() if validate_only else tuple(records), tuple(answers.values()))


def _config_records(
    context: DecisionContext, resource: ConfigResource, changes: tuple[Change, ...], *, suggest: bool
) -> list[ConfigRecord]:
    keys = _keys_of(context.image, resource)
    twice = [name for name, times in Counter(change.key for change in changes).items() if times > 1]
    if twice:
        raise KafkaError(errors.INVALID_REQUEST, f"{twice[0]} is changed more than once in one request")
    before = context.image.configs.get(resource, {})
    records = []
    for change in changes:
        if change.operation is Operation.DELETE and change.key in before:
            _check_may_change(context.image, resource, keys.get(change.key), None)
            records.append(ConfigRecord(resource, change.key, None))
            continue  # A setting can be deleted even if this version no longer knows its key, so skip the lookup.
        key = known_key(keys, change.key, suggest=suggest)
        if change.operation is Operation.DELETE:
            continue
        if change.value is None:
            raise KafkaError(errors.INVALID_REQUEST, f"{key.name} has no value; use DELETE to remove a setting")
        value = _new_text(context, resource, key, change.operation, change.value)
        parse(key, value)
        _check_may_change(context.image, resource, key, value)
        if before.get(key.name) != value:
            records.append(ConfigRecord(resource, key.name, value))
    if resource.type == TOPIC_RESOURCE:
        changed = {record.key: record.value for record in records if record.value is not None}
        topic = context.image.topics[resource.name]
        check_kind_settings(topic.kind, changed)
        check_min_insync(resource.name, changed, context.image.replication_factor(topic), is_new=False)
    if resource.type == GROUP_RESOURCE:
        made = {record.key: record.value for record in records}
        settings = {key: value for key, value in {**before, **made}.items() if value is not None}
        check_share_group_settings(made.keys(), settings, context.layers)
    return records


def _new_text(
    context: DecisionContext, resource: ConfigResource, key: ConfigKey, operation: Operation, given: str
) -> str:
    if operation is Operation.SET:
        return given.strip()
    if key.type is not ConfigType.LIST:
        raise KafkaError(
            errors.INVALID_CONFIG, f"{operation.name} needs a list, but {key.name} is a {key.type.name}; use SET"
        )
    items = value_of_text(key.type, given)
    present = value_of_text(key.type, _effective(context, resource, key) or "")
    assert isinstance(items, tuple) and isinstance(present, tuple)
    if operation is Operation.APPEND:
        result = (*present, *(item for item in items if item not in present))
    else:
        result = tuple(item for item in present if item not in items)
    return text_of_value(result) or ""


def _effective(context: DecisionContext, resource: ConfigResource, key: ConfigKey) -> str | None:
    overrides = context.image.configs.get(resource, {})
    if resource.type == TOPIC_RESOURCE:
        return resolve_topic(key, overrides, context.layers).value
    if resource.type == GROUP_RESOURCE:
        return resolve_group(key, overrides, context.layers).value
    return overrides.get(key.name) or resolve_broker(key, context.layers).value


def _keys_of(image: ClusterImage, resource: ConfigResource) -> Mapping[str, ConfigKey]:
    match resource.type:
        case _ if resource.type == TOPIC_RESOURCE:
            topic = image.topic(resource.name)
            if topic is None:
                raise KafkaError(errors.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {resource.name!r}")
            if topic.is_internal:
                raise KafkaError(
                    errors.INVALID_CONFIG, f"topic {topic.name!r} is internal: its configuration cannot be changed"
                )
            return TOPIC_KEYS
        case _ if resource.type == BROKER_RESOURCE:
            if resource.name and resource.name not in {str(broker_id) for broker_id in image.brokers}:
                known = ", ".join(str(broker_id) for broker_id in sorted(image.brokers))
                raise KafkaError(errors.INVALID_REQUEST, f"there is no broker {resource.name!r}; brokers: {known}")
            return BROKER_KEYS
        case _ if resource.type == GROUP_RESOURCE:
            if not resource.name:
                raise KafkaError(errors.INVALID_REQUEST, "the group resource has an empty name; set it to a group id")
            return GROUP_KEYS
        case _:
            raise KafkaError(
                errors.INVALID_REQUEST,
                f"resource type {resource.type} has no configuration; use a topic ({TOPIC_RESOURCE}), "
                f"a broker ({BROKER_RESOURCE}) or a group ({GROUP_RESOURCE})",
            )


def _check_may_change(image: ClusterImage, resource: ConfigResource, key: ConfigKey | None, value: str | None) -> None:
    if key is None:
        return
    shown = value if value is not None else "(default)"
    if resource.type == BROKER_RESOURCE:
        if key.update is Update.READ_ONLY:
            raise refusal(
                key,
                shown,
                "it is read only at start-up; set it in the broker's configuration file and restart the broker",
            )
        if key.update is Update.PER_BROKER and not resource.name:
            raise refusal(key, shown, "it applies to a single broker; name the broker")
    if resource.type == TOPIC_RESOURCE and key.name == KIND:
        topic = image.topic(resource.name)
        if topic is not None and topic.kind != (value or TopicKind.LOG):
            raise refusal(
                key,
                shown,
                f"{resource.name!r} is a {topic.kind} topic, and a topic's kind cannot change; leave it out, or create "
                "another topic",
            )
