"""The table of APIs is Kafka 4.3's."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from tidemill.wire import api as apis
from tidemill.wire.messages import api_versions
from tidemill.wire.schema import Api


@pytest.mark.parametrize("api", apis.ALL.values(), ids=lambda api: api.name)
def test_versions_are_kafka_s(api: Api) -> None:
    """
    We speak the versions that Kafka 4.3 speaks; of Produce also those that it only advertises (KAFKA-18659), and of
    InitProducerId not the one that its schema has and a released broker does not offer (KIP-939).
    """
    versions = schema_name_map[api_key_map[api.key]]
    oldest = 0 if api.name == "produce" else min(versions)
    newest = 5 if api.name == "init_producer_id" else max(versions)

    spoken = api.versions

    assert range(oldest, newest + 1) == spoken


def test_what_is_advertised_is_what_was_registered() -> None:
    """
    ApiVersions lists what works, in the order of the keys.
    """
    registered = [18, 0]

    listed = apis.advertised(registered)

    assert [
        api_versions.Response.ApiKey(api_key=0, min_version=0, max_version=13),
        api_versions.Response.ApiKey(api_key=18, min_version=0, max_version=4),
    ] == listed
