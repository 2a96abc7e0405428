"""The table of APIs agrees with Kafka 4.3."""

import pytest
from kio.schema.index import api_key_map, schema_name_map

from tidemill.wire import api as apis
from tidemill.wire.messages import api_versions
from tidemill.wire.schema import Api


@pytest.mark.parametrize("api", apis.ALL.values(), ids=lambda api: api.name)
def test_versions_are_those_of_kafka(api: Api) -> None:
    """
    The declared API versions are those of Kafka 4.3, with two exceptions.  Produce includes the versions that Kafka
    only advertises (KAFKA-18659).  InitProducerId lacks v6, which a released broker does not advertise (KIP-939).
    """
    versions = schema_name_map[api_key_map[api.key]]
    oldest = 0 if api.name == "produce" else min(versions)
    newest = 5 if api.name == "init_producer_id" else max(versions)

    spoken = api.versions

    assert range(oldest, newest + 1) == spoken


def test_registered_apis_are_advertised() -> None:
    """
    ApiVersions lists the implemented APIs in the order of their keys.
    """
    registered = [18, 0]

    listed = apis.advertised(registered)

    assert [
        api_versions.Response.ApiKey(api_key=0, min_version=0, max_version=13),
        api_versions.Response.ApiKey(api_key=18, min_version=0, max_version=4),
    ] == listed
