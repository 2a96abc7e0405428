"""The parts of `draft_messages.py`'s output that are not in Kafka's schemas: descriptions of APIs and of versions."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    sentence: str
    versions: dict[int, str] = field(default_factory=dict)
    oldest: int | None = None  # the oldest version to declare, if it is older than Kafka 4.3's
    title: str | None = None


NOTES = {
    "Produce": Note(
        "Appends record batches to partitions and returns their offsets.  There is no response with acks=0.\n"
        "v0-2 carry formats older than record batch v2 and are refused.  They are advertised because librdkafka does\n"
        "not compress batches for brokers that do not advertise them (KAFKA-18659).",
        {
            3: "record batch v2 only",
            4: "may return KAFKA_STORAGE_ERROR",
            7: "batches may be compressed with zstd (KIP-110)",
            8: "the indexes of refused records (KIP-467)",
            10: "NOT_LEADER_OR_FOLLOWER carries the new leader (KIP-951)",
            11: "may return TRANSACTION_ABORTABLE (KIP-890)",
            12: "adds partitions to the transaction implicitly (KIP-890)",
            13: "topics by id (KIP-516)",
        },
        oldest=0,
    ),
    "Fetch": Note(
        "Returns record batches of partitions, as soon as min_bytes are available or max_wait_ms have passed.",
        {
            6: "may return KAFKA_STORAGE_ERROR",
            7: "incremental sessions (KIP-227)",
            9: "fencing by leader epoch (KIP-320)",
            10: "batches may be compressed with zstd (KIP-110)",
            11: "fetching from followers (KIP-392)",
            13: "topics by id (KIP-516)",
            14: "may return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405)",
            15: "replicas are fenced by their broker's epoch (KIP-903)",
            16: "the endpoint of the new leader (KIP-951)",
            17: "the replica's directory id (KIP-853)",
            18: "the replica's high watermark (KIP-1166)",
        },
    ),
    "ListOffsets": Note(
        "Returns the offset of a timestamp or of a partition's end: -2 earliest, -1 latest, -3 greatest timestamp,\n"
        "-4 earliest local, -5 last tiered, -6 earliest not yet tiered.",
        {
            7: "timestamp -3 (KIP-734)",
            8: "timestamp -4 (KIP-405)",
            9: "timestamp -5 (KIP-1005)",
            10: "remote lookups have a time limit (KIP-1075)",
            11: "timestamp -6 (KIP-1023)",
        },
    ),
    "Metadata": Note(
        "Returns the brokers and the leaders of partitions.  Null topics (v0: an empty list) means every topic.",
        {
            7: "fencing by leader epoch (KIP-320)",
            10: "topic ids (KIP-516)",
            11: "authorized operations of the cluster moved to DescribeCluster (KIP-700)",
            12: "topics by id in requests",
            13: "a top-level error: REBOOTSTRAP_REQUIRED (KIP-1102)",
        },
    ),
    "ApiVersions": Note(
        "Returns the APIs and versions that the broker supports; most clients send it first.  The response header\n"
        "never has tagged fields.  An unknown version gets a v0 response with UNSUPPORTED_VERSION and all keys\n"
        "(KIP-511).",
        {
            3: "the name of the client, and features (KIP-511, KIP-584)",
            4: "features may start at version 0 (KAFKA-17011)",
        },
    ),
    "SaslHandshake": Note(
        "Chooses the SASL mechanism of a connection; the response lists those that the broker offers.",
        {1: "the mechanism's messages follow in SaslAuthenticate instead of frames without a header (KIP-152)"},
    ),
    "SaslAuthenticate": Note(
        "Carries one message of the SASL mechanism that SaslHandshake chose, and the broker's reply (KIP-152).",
        {1: "the client authenticates again before it has passed (KIP-368)"},
    ),
    "CreateTopics": Note(
        "Creates topics.  A partition count or replication factor of -1 means the broker's default.",
        {
            4: "-1 means the broker's default (KIP-464)",
            5: "the number of partitions and the configs of a created topic (KIP-525)",
            6: "may return THROTTLING_QUOTA_EXCEEDED",
        },
    ),
    "DeleteTopics": Note(
        "Deletes topics by name or id.",
        {5: "may return THROTTLING_QUOTA_EXCEEDED (KIP-599)", 6: "topics by id (KIP-516)"},
    ),
    "DeleteRecords": Note("Advances the log start offset of partitions; offset -1 means the high watermark."),
    "OffsetForLeaderEpoch": Note(
        "Returns the end offset of a leader epoch, by which a consumer detects that the log was truncated (KIP-320).",
    ),
    "DescribeConfigs": Note(
        "Returns the configs of topics and brokers, with the source of each value.",
        {3: "types and documentation (KIP-569)"},
    ),
    "AlterConfigs": Note(
        "Replaces all configs of a resource; a key that is not listed is reset to its default.",
    ),
    "IncrementalAlterConfigs": Note(
        "Changes individual config keys: 0 set, 1 delete, 2 append, 3 subtract (KIP-339).",
    ),
    "CreatePartitions": Note(
        "Increases the partition counts of topics.", {3: "may return THROTTLING_QUOTA_EXCEEDED (KIP-599)"}
    ),
    "OffsetCommit": Note(
        "Commits the offsets of a group.",
        {
            7: "static members (KIP-345)",
            9: "the consumer group protocol; may return STALE_MEMBER_EPOCH (KIP-848)",
            10: "topics by id (KIP-848)",
        },
    ),
    "OffsetFetch": Note(
        "Returns the committed offsets of groups.  Null topics means every topic with a committed offset.",
        {
            7: "may return UNSTABLE_OFFSET_COMMIT (KIP-447)",
            8: "many groups at once (KIP-709)",
            9: "the consumer group protocol (KIP-848)",
            10: "topics by id (KIP-848)",
        },
    ),
    "FindCoordinator": Note(
        "Returns the coordinator of a group (key type 0), a transaction (1) or a share group's partition (2).",
        {
            4: "many keys at once (KIP-699)",
            5: "may return TRANSACTION_ABORTABLE (KIP-890)",
            6: "key type 2 (KIP-932)",
        },
    ),
    "JoinGroup": Note(
        "A member joins the next generation of a classic group and lists the protocols it supports.",
        {
            4: "MEMBER_ID_REQUIRED: a new member gets its id first, then joins (KIP-394)",
            5: "static members (KIP-345)",
            7: "the chosen protocol's type (KIP-559)",
            8: "why the member joins (KIP-800)",
            9: "a static leader that returns skips the assignment (KIP-814)",
        },
    ),
    "Heartbeat": Note(
        "A member of a classic group reports that it is alive; the response tells it whether to rejoin.",
        {3: "static members (KIP-345)"},
    ),
    "LeaveGroup": Note(
        "Members leave a classic group.", {3: "many members at once (KIP-345)", 5: "why a member leaves (KIP-800)"}
    ),
    "SyncGroup": Note(
        "The leader of a classic group sends the assignments of all members; every member receives its own.",
        {3: "static members (KIP-345)", 5: "the chosen protocol is checked (KIP-559)"},
    ),
    "DescribeGroups": Note(
        "Returns classic groups with their members.",
        {
            3: "authorized operations (KIP-430)",
            4: "static members (KIP-345)",
            6: "GROUP_ID_NOT_FOUND instead of a dead group (KIP-1043)",
        },
    ),
    "ListGroups": Note(
        "Returns the groups that this broker coordinates.",
        {4: "filtering by state (KIP-518)", 5: "filtering by type (KIP-848)"},
    ),
    "DeleteGroups": Note("Deletes empty groups."),
    "OffsetDelete": Note("Deletes committed offsets (KIP-496)."),
    "InitProducerId": Note(
        "Allocates a producer id and epoch for an idempotent or transactional producer.",
        {
            3: "a producer may keep its id and raise its epoch (KIP-360)",
            4: "may return PRODUCER_FENCED",
            5: "may return TRANSACTION_ABORTABLE (KIP-890)",
            6: "two-phase commit (KIP-939)",
        },
    ),
    "DescribeCluster": Note(
        "Returns the brokers and the controller of the cluster.",
        {1: "brokers or controllers (KIP-919)", 2: "fenced brokers (KIP-1073)"},
    ),
    "DescribeTopicPartitions": Note(
        "Returns the partitions of topics in pages, with eligible leader replicas (KIP-966)."
    ),
    "ElectLeaders": Note(
        "Requests leader elections: type 0 is preferred, 1 is unclean.  Null topic_partitions means all partitions.",
        {1: "unclean elections (KIP-460)"},
    ),
    "DescribeQuorum": Note(
        "Returns the voters and observers of the metadata log (KIP-595).",
        {
            1: "when a replica was last heard and caught up (KIP-836)",
            2: "the voters' directory ids and endpoints (KIP-853)",
        },
    ),
    "DescribeLogDirs": Note(
        "Returns the log directories of this broker: their disks, and the size of each partition.  Null topics means\n"
        "every partition.",
        {3: "a top-level error", 4: "the size of the disk (KIP-827)", 5: "cordoned directories (KIP-1066)"},
    ),
    "AlterReplicaLogDirs": Note("Moves replicas of this broker to other log directories of it (KIP-113)."),
    "ListConfigResources": Note(
        "Returns the names of the resources that have configurations.  v0 is ListClientMetricsResources (KIP-714).",
        {1: "resources of every type (KIP-1142)"},
    ),
    "DescribeProducers": Note("Returns the active producers of partitions and their open transactions (KIP-664)."),
    "AddPartitionsToTxn": Note(
        "Adds partitions to a transaction that is about to write to them.",
        {
            2: "may return PRODUCER_FENCED",
            4: "many transactions at once, for brokers only (KIP-890)",
            5: "may return TRANSACTION_ABORTABLE (KIP-890)",
        },
    ),
    "AddOffsetsToTxn": Note(
        "Adds a consumer group to a transaction that is about to commit offsets of that group.",
        {2: "may return PRODUCER_FENCED", 4: "may return TRANSACTION_ABORTABLE (KIP-890)"},
    ),
    "EndTxn": Note(
        "Commits or aborts a transaction.",
        {
            2: "may return PRODUCER_FENCED",
            4: "may return TRANSACTION_ABORTABLE (KIP-890)",
            5: "each transaction has an epoch of its own (KIP-890)",
        },
    ),
    "AlterPartitionReassignments": Note(
        "Assigns partitions to other brokers, or, with null replicas, cancels what is under way (KIP-455).",
        {1: "a request may forbid changes of the replication factor (KIP-860)"},
    ),
    "ListPartitionReassignments": Note(
        "Returns the partitions whose replicas are on their way to other brokers (KIP-455).  Null topics means all.", {}
    ),
    "UpdateFeatures": Note(
        "Raises or lowers the levels of a cluster's features (KIP-584).",
        {1: "dry runs (KIP-778)", 2: "all features are changed, or none (KIP-1022)"},
    ),
    "TxnOffsetCommit": Note(
        "Commits offsets of a group as part of a transaction.",
        {
            3: "fencing by the group's generation (KIP-447)",
            4: "may return TRANSACTION_ABORTABLE (KIP-890)",
            5: "adds the group to the transaction implicitly (KIP-890)",
        },
    ),
}

# Names of nested structs that are not the singular of their field's name, by API and Kafka's name of the struct.
STRUCT_NAMES = {
    ("Produce", "TopicProduceData"): "Topic",
    ("Produce", "PartitionProduceData"): "Partition",
    ("Produce", "TopicProduceResponse"): "Topic",
    ("Produce", "PartitionProduceResponse"): "Partition",
    ("Fetch", "ForgottenTopic"): "ForgottenTopic",
    ("Fetch", "FetchableTopicResponse"): "Topic",
    ("DeleteTopics", "DeletableTopicResult"): "Topic",
    ("AlterConfigs", "AlterConfigsResourceResponse"): "Resource",
    ("IncrementalAlterConfigs", "AlterConfigsResourceResponse"): "Resource",
    ("DescribeConfigs", "DescribeConfigsResult"): "Resource",
    ("CreatePartitions", "CreatePartitionsTopicResult"): "Topic",
    ("DeleteGroups", "DeletableGroupResult"): "Group",
    ("AlterReplicaLogDirs", "AlterReplicaLogDir"): "Directory",
    ("AlterReplicaLogDirs", "AlterReplicaLogDirTopicResult"): "Topic",
    ("AlterPartitionReassignments", "ReassignableTopic"): "Topic",
    ("AlterPartitionReassignments", "ReassignablePartition"): "Partition",
    ("AlterPartitionReassignments", "ReassignableTopicResponse"): "Topic",
    ("AlterPartitionReassignments", "ReassignablePartitionResponse"): "Partition",
    ("ListPartitionReassignments", "ListPartitionReassignmentsTopics"): "Topic",
    ("ListPartitionReassignments", "OngoingTopicReassignment"): "Topic",
    ("ListPartitionReassignments", "OngoingPartitionReassignment"): "Partition",
    ("UpdateFeatures", "FeatureUpdateKey"): "Update",
    ("UpdateFeatures", "UpdatableFeatureResult"): "Result",
    ("DescribeTopicPartitions", "Cursor"): "Cursor",
    ("ElectLeaders", "TopicPartitions"): "Topic",
    ("ElectLeaders", "ReplicaElectionResult"): "Topic",
    ("ElectLeaders", "PartitionResult"): "Partition",
    ("DescribeQuorum", "ReplicaState"): "Replica",
    ("AddPartitionsToTxn", "AddPartitionsToTxnTopic"): "RequestTopic",
    ("AddPartitionsToTxn", "AddPartitionsToTxnTopicResult"): "ResponseTopic",
    ("AddPartitionsToTxn", "AddPartitionsToTxnPartitionResult"): "ResponsePartition",
    ("AddPartitionsToTxn", "AddPartitionsToTxnResult"): "Transaction",
}
