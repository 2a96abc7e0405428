"""Requests about configurations, for `tidemill configs` and `tidemill dlq`.

They use Tidemill's own client, because confluent-kafka cannot address the cluster-wide defaults, and keeps only the
last value of a key that is set at several levels.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tidemill.cli.bootstrap import check_reachable, no_response
from tidemill.cli.failure import Failed
from tidemill.cli.refusal import refusal
from tidemill.client.broker_connection import BrokerConnection
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.failures import BrokerUnreachable, ClientError, RetriesExhausted
from tidemill.model import errors
from tidemill.model.config_resolution import ConfigSource
from tidemill.wire.messages import describe_configs, incremental_alter_configs, list_config_resources
from tidemill.wire.schema import Api, Message

Config = describe_configs.Response.Resource.Config

REQUEST_TIMEOUT_MS: Final = 30_000
TOPIC: Final = 2
GROUP: Final = 32
BROKER: Final = 4
DESCRIBED_AT_ONCE_MAX: Final = 500  # resources per request; bounds the size of a response
WITHOUT_EFFECT: Final = "Accepted without effect: "
"""The prefix of Tidemill's documentation of a key that is stored but ignored."""

SET: Final = 0
DELETE: Final = 1


class Resource(NamedTuple):
    """
    A resource to configure.  A broker's name is its id; the cluster-wide defaults are the broker with an empty name.
    """

    type: int
    name: str

    @property
    def about(self) -> str:
        if self.type == TOPIC:
            return f"topic {self.name!r}"
        if self.type == GROUP:
            return f"group {self.name!r}"
        return f"broker {self.name}" if self.name else "the cluster"


class ConfigAdmin:
    """Requests about configurations.  Every method raises `Failed` if a broker refuses or does not respond."""

    def __init__(self, bootstrap: str) -> None:
        check_reachable(bootstrap)
        self._bootstrap = bootstrap
        timeouts = dict.fromkeys(("request.timeout.ms", "default.api.timeout.ms"), str(REQUEST_TIMEOUT_MS))
        self._cluster = ClusterMetadata(from_keys({"bootstrap.servers": bootstrap, **timeouts}))

    def rows(self, resource: Resource, keys: Sequence[str] | None) -> list[dict[str, Any]]:
        """Return the configurations of the resource, ordered by key.  Unless `keys` is None, return only those keys."""
        configs = self._describe(resource, keys, with_documentation=False)
        return [_row(config, resource.type) for config in sorted(configs, key=lambda config: config.name)]

    def without_effect(self, resource: Resource, keys: Sequence[str]) -> dict[str, str]:
        """Return the keys among `keys` that the broker stores but ignores, each with the reason."""
        documented = {
            config.name: config.documentation or ""
            for config in self._describe(resource, keys, with_documentation=True)
        }
        return {
            key: text.removeprefix(WITHOUT_EFFECT).removesuffix(".")
            for key, text in documented.items()
            if text.startswith(WITHOUT_EFFECT)
        }

    def _describe(self, resource: Resource, keys: Sequence[str] | None, *, with_documentation: bool) -> list[Config]:
        request = describe_configs.Request(
            resources=[
                describe_configs.Request.Resource(
                    resource_type=resource.type, resource_name=resource.name, configuration_keys=keys
                )
            ],
            include_synonyms=not with_documentation,
            include_documentation=with_documentation,
        )
        (result,) = self._ask(resource, describe_configs.API, request).results
        _check(result, resource)
        return [*result.configs]

    def names(self, resource_type: int) -> list[str]:
        """Return the names of the resources of a type, ordered; of groups, only those with a setting of their own."""
        request = list_config_resources.Request(resource_types=[resource_type])
        response = self._ask(Resource(resource_type, ""), list_config_resources.API, request)
        if response.error_code != errors.NONE:
            name = errors.name(response.error_code)
            raise refusal(name, "the list of resources", "the broker refused the request")
        return sorted(it.resource_name for it in response.config_resources if it.resource_type == resource_type)

    def values(self, resources: Sequence[Resource], key: str) -> dict[str, str | None]:
        """Return the value of one key by the names of the resources; those that have no such key are left out."""
        found: dict[str, str | None] = {}
        for at in range(0, len(resources), DESCRIBED_AT_ONCE_MAX):
            page = resources[at : at + DESCRIBED_AT_ONCE_MAX]
            request = describe_configs.Request(
                resources=[
                    describe_configs.Request.Resource(
                        resource_type=it.type, resource_name=it.name, configuration_keys=[key]
                    )
                    for it in page
                ],
                include_synonyms=False,
                include_documentation=False,
            )
            for resource, result in zip(page, self._ask(page[0], describe_configs.API, request).results, strict=True):
                if result.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
                    continue  # the topic was deleted since its name was listed
                _check(result, resource)
                for config in result.configs:
                    found[resource.name] = config.value
        return found

    def alter(self, resource: Resource, changes: Mapping[str, str | None]) -> None:
        """Set each key in `changes` to its value.  A value of None removes the resource's own value for that key."""
        change = incremental_alter_configs.Request.Resource.Config
        request = incremental_alter_configs.Request(
            resources=[
                incremental_alter_configs.Request.Resource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configs=[
                        change(name=key, config_operation=DELETE if value is None else SET, value=value)
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=False,
        )
        (result,) = self._ask(resource, incremental_alter_configs.API, request).responses
        _check(result, resource)

    def _ask(self, resource: Resource, api: Api, request: Message) -> Any:
        try:
            self._cluster.refresh(())
            return self._connection_for(resource).request(api, request)
        except (BrokerUnreachable, RetriesExhausted) as problem:
            raise no_response(self._bootstrap, f"{resource.about}: {problem}") from problem
        except ClientError as problem:
            raise Failed(f"{resource.about}: {problem}") from problem

    def _connection_for(self, resource: Resource) -> BrokerConnection:
        """Return a connection to the broker that the resource names, or to any broker for other resources."""
        ids = self._cluster.broker_ids()
        if resource.type == BROKER and resource.name:
            if int(resource.name) not in ids:
                known = ", ".join(map(str, ids))
                raise Failed(f"--broker {resource.name}: the cluster has no such live broker; it has {known}")
            return self._cluster.connection_to(int(resource.name))
        for broker_id in ids[:-1]:
            try:
                return self._cluster.connection_to(broker_id)
            except BrokerUnreachable:
                continue
        return self._cluster.connection_to(ids[-1])


def _check(result: Any, resource: Resource) -> None:
    if result.error_code != errors.NONE:
        name = errors.name(result.error_code)
        raise refusal(name, resource.about, result.error_message or "the broker refused the request")


def _row(config: Config, resource_type: int) -> dict[str, Any]:
    return {
        "key": config.name,
        "value": config.value,
        "source": _source_name(config.config_source),
        "default": default_of(config),
        "if_unset": value_if_unset(config, resource_type),
        "is_set_by_another_key": is_set_by_another_key(config),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "levels": [{"key": it.name, "value": it.value, "source": _source_name(it.source)} for it in config.synonyms],
    }


def default_of(config: Config) -> str | None:
    """Return the value that applies if the key is not set at any level, or None if the broker does not report it.

    A default in another unit is returned with its key, such as log.retention.hours=168 for retention.ms.
    """
    if config.config_source == ConfigSource.DEFAULT_CONFIG:
        return config.value
    for level in config.synonyms:
        if level.source == ConfigSource.DEFAULT_CONFIG:
            return _in_unit_of(config, level)
    return None


def value_if_unset(config: Config, resource_type: int) -> str | None:
    """
    Return the value that would apply if the key were unset at the level of the effective value: the value of the next
    level, or None if there is none.  Return the current value if the resource has only inherited it.
    """
    levels = config.synonyms
    own = {TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG, GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG}.get(resource_type)
    is_own = own is None or config.config_source == own
    if config.config_source == ConfigSource.DEFAULT_CONFIG or not is_own:
        return config.value
    return _in_unit_of(config, levels[1]) if len(levels) > 1 else None


def is_set_by_another_key(config: Config) -> bool:
    """
    Return whether the key has no value of its own and only a synonym is set, for example log.retention.ms when
    log.retention.hours is set.  The broker then reports the synonym's source for the key, as Kafka does.
    """
    return config.value is None and bool(config.synonyms) and config.synonyms[0].name != config.name


def _in_unit_of(config: Config, level: Config.Synonym) -> str | None:
    same_unit = level.name.rpartition(".")[2] == config.name.rpartition(".")[2]
    return level.value if same_unit else f"{level.name}={level.value}"


def _source_name(source: int) -> str:
    try:
        return ConfigSource(source).name
    except ValueError:
        return f"source {source}"
