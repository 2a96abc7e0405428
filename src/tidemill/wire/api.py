"""All Kafka APIs whose messages are declared, in the versions that Kafka 4.3 supports; Produce starts at version 0.

A broker implements a subset of these APIs, and advertises only that subset in ApiVersions (`advertised`).
"""

from collections.abc import Iterable
from typing import Final

from tidemill.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_share_group_offsets,
    api_versions,
    consumer_group_heartbeat,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_share_group_offsets,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_share_group_offsets,
    describe_topic_partitions,
    elect_leaders,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
)
from tidemill.wire.schema import Api

ALL: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        add_offsets_to_txn.API,
        add_partitions_to_txn.API,
        alter_configs.API,
        alter_partition_reassignments.API,
        alter_replica_log_dirs.API,
        alter_share_group_offsets.API,
        api_versions.API,
        consumer_group_heartbeat.API,
        create_partitions.API,
        create_topics.API,
        delete_groups.API,
        delete_records.API,
        delete_share_group_offsets.API,
        delete_topics.API,
        describe_cluster.API,
        describe_configs.API,
        describe_groups.API,
        describe_log_dirs.API,
        describe_producers.API,
        describe_quorum.API,
        describe_share_group_offsets.API,
        describe_topic_partitions.API,
        elect_leaders.API,
        end_txn.API,
        fetch.API,
        find_coordinator.API,
        heartbeat.API,
        incremental_alter_configs.API,
        init_producer_id.API,
        join_group.API,
        leave_group.API,
        list_config_resources.API,
        list_groups.API,
        list_offsets.API,
        list_partition_reassignments.API,
        metadata.API,
        offset_commit.API,
        offset_delete.API,
        offset_fetch.API,
        offset_for_leader_epoch.API,
        produce.API,
        sasl_authenticate.API,
        sasl_handshake.API,
        share_acknowledge.API,
        share_fetch.API,
        share_group_describe.API,
        share_group_heartbeat.API,
        sync_group.API,
        txn_offset_commit.API,
        unregister_broker.API,
        update_features.API,
    )
}
"""API key → API, ordered by name."""


def advertised(keys: Iterable[int]) -> list[api_versions.Response.ApiKey]:
    """Return the ApiVersions entries of these API keys, in ascending order."""
    return [
        api_versions.Response.ApiKey(api_key=key, min_version=api.versions.start, max_version=api.versions.stop - 1)
        for key in sorted(keys)
        if (api := ALL[key])
    ]
