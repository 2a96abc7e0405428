"""What `draft_messages.py` cannot read from the schemas: a sentence per API, and versions' other changes."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    sentence: str
    versions: dict[int, str] = field(default_factory=dict)
    oldest: int | None = None  # where we declare more than Kafka 4.3 answers
    title: str | None = None


NOTES = {
    "Produce": Note(
        "A producer's record batches, by partition; the answer says where each was appended.  None with acks=0.\n"
        "v0-2 carry formats older than record batch v2 and are refused; they are advertised because librdkafka sends\n"
        "uncompressed batches to brokers that do not (KAFKA-18659).",
        {
            3: "record batch v2 only",
            4: "KAFKA_STORAGE_ERROR may be answered",
            7: "batches may be compressed with zstd (KIP-110)",
            8: "names the records that were refused (KIP-467)",
            10: "the new leader comes with NOT_LEADER_OR_FOLLOWER (KIP-951)",
            11: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
            12: "adds partitions to the transaction implicitly (KIP-890)",
            13: "topics by id (KIP-516)",
        },
        oldest=0,
    ),
    "Fetch": Note(
        "Record batches from many partitions, waiting until there are min_bytes or max_wait_ms are over.",
        {
            6: "KAFKA_STORAGE_ERROR may be answered",
            7: "incremental sessions (KIP-227)",
            9: "leader epochs fence (KIP-320)",
            10: "batches may be compressed with zstd (KIP-110)",
            11: "fetching from followers (KIP-392)",
            13: "topics by id (KIP-516)",
            14: "OFFSET_MOVED_TO_TIERED_STORAGE may be answered (KIP-405)",
            15: "KIP-903",
            16: "KIP-951",
            17: "KIP-853",
            18: "KIP-1166",
        },
    ),
    "ListOffsets": Note(
        "The offset of a timestamp, or of an end of a partition: -2 earliest, -1 latest, -3 greatest timestamp,\n"
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
        "Brokers, and the leaders of topics' partitions.  Null topics (v0: an empty list) means every topic.",
        {
            7: "KIP-320",
            10: "topic ids (KIP-516)",
            11: "authorized operations of the cluster moved to DescribeCluster (KIP-700)",
            12: "topics by id in requests",
            13: "a top-level error: REBOOTSTRAP_REQUIRED (KIP-1102)",
        },
    ),
    "ApiVersions": Note(
        "What this broker speaks; the first request of most clients.  The answer's header never has tagged fields.\n"
        "A version we do not know is answered with v0, error 35 and all keys (KIP-511).",
        {3: "KIP-511, KIP-584", 4: "features may start at version 0 (KAFKA-17011)"},
    ),
    "CreateTopics": Note(
        "New topics.  Partition count and replication factor may be -1: the broker's default.",
        {4: "-1 is the broker's default (KIP-464)", 5: "KIP-525", 6: "THROTTLING_QUOTA_EXCEEDED may be answered"},
    ),
    "DeleteTopics": Note(
        "Topics, by name or id, that shall be no more.",
        {5: "KIP-599", 6: "topics by id (KIP-516)"},
    ),
    "DeleteRecords": Note("Moves the log start offset of partitions forward; offset -1 is the high watermark."),
    "OffsetForLeaderEpoch": Note(
        "Where a leader epoch ended, so that a reader can tell whether the log was cut behind its back (KIP-320).",
    ),
    "DescribeConfigs": Note(
        "The configs of topics and brokers, with where each value comes from.",
        {3: "types and documentation (KIP-569)"},
    ),
    "AlterConfigs": Note(
        "Replaces all configs of a resource; whatever is not named goes back to its default.",
    ),
    "IncrementalAlterConfigs": Note(
        "Changes single configs: 0 set, 1 delete, 2 append, 3 subtract (KIP-339).",
    ),
    "CreatePartitions": Note(
        "Raises topics' partition counts.", {3: "THROTTLING_QUOTA_EXCEEDED may be answered (KIP-599)"}
    ),
    "OffsetCommit": Note(
        "A group keeps its place.",
        {
            7: "KIP-345",
            9: "the consumer group protocol; STALE_MEMBER_EPOCH may be answered (KIP-848)",
            10: "topics by id (KIP-848)",
        },
    ),
    "OffsetFetch": Note(
        "Where groups left off.  Null topics means every topic with a committed offset.",
        {
            7: "UNSTABLE_OFFSET_COMMIT may be answered (KIP-447)",
            8: "many groups at once (KIP-709)",
            9: "the consumer group protocol (KIP-848)",
            10: "topics by id (KIP-848)",
        },
    ),
    "FindCoordinator": Note(
        "Which broker coordinates a group (key type 0), a transaction (1) or a share group's partition (2).",
        {
            4: "many keys at once (KIP-699)",
            5: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
            6: "key type 2 (KIP-932)",
        },
    ),
    "JoinGroup": Note(
        "A member enters a classic group's next generation, with the protocols it can speak.",
        {
            4: "MEMBER_ID_REQUIRED: a new member is given its id first (KIP-394)",
            5: "KIP-345",
            7: "KIP-559",
            8: "KIP-800",
            9: "KIP-814",
        },
    ),
    "Heartbeat": Note(
        "A classic group's member says it is alive; the answer tells it to rejoin, or not.", {3: "KIP-345"}
    ),
    "LeaveGroup": Note("Members leave a classic group.", {3: "many members at once (KIP-345)", 5: "KIP-800"}),
    "SyncGroup": Note(
        "The leader of a classic group hands in the assignments; every member takes its own away.",
        {3: "KIP-345", 5: "KIP-559"},
    ),
    "DescribeGroups": Note(
        "Classic groups with their members.",
        {3: "KIP-430", 4: "KIP-345", 6: "GROUP_ID_NOT_FOUND instead of a dead group (KIP-1043)"},
    ),
    "ListGroups": Note("Every group that this broker coordinates.", {4: "KIP-518", 5: "KIP-848"}),
    "DeleteGroups": Note("Empty groups that shall be no more."),
    "OffsetDelete": Note("Committed offsets that shall be no more (KIP-496)."),
    "InitProducerId": Note(
        "A producer id and epoch, for idempotent and transactional producers.",
        {
            3: "a producer may come back with its id (KIP-360)",
            4: "PRODUCER_FENCED may be answered",
            5: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
            6: "two-phase commit (KIP-939)",
        },
    ),
    "DescribeCluster": Note("The brokers and the controller.", {1: "KIP-919", 2: "KIP-1073"}),
    "DescribeTopicPartitions": Note("Topics' partitions in pages, with eligible leader replicas (KIP-966)."),
    "ElectLeaders": Note(
        "Asks for an election: type 0 preferred, 1 unclean.  Null topic_partitions means all.", {1: "KIP-460"}
    ),
    "DescribeQuorum": Note("The voters and observers of the metadata log (KIP-595).", {1: "KIP-836", 2: "KIP-853"}),
    "DescribeProducers": Note("Who produces to partitions, and what transactions are open there (KIP-664)."),
    "AddPartitionsToTxn": Note(
        "Partitions that a transaction is about to write to.",
        {
            2: "PRODUCER_FENCED may be answered",
            4: "many transactions at once, for brokers only (KIP-890)",
            5: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
        },
    ),
    "AddOffsetsToTxn": Note(
        "A group whose offsets a transaction is about to commit.",
        {2: "PRODUCER_FENCED may be answered", 4: "TRANSACTION_ABORTABLE may be answered (KIP-890)"},
    ),
    "EndTxn": Note(
        "Commits or aborts a transaction.",
        {
            2: "PRODUCER_FENCED may be answered",
            4: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
            5: "each transaction has an epoch of its own (KIP-890)",
        },
    ),
    "TxnOffsetCommit": Note(
        "Offsets that a group commits with a transaction.",
        {
            3: "KIP-447",
            4: "TRANSACTION_ABORTABLE may be answered (KIP-890)",
            5: "adds the group to the transaction implicitly (KIP-890)",
        },
    ),
}

# Nested structs are named after their field, in the singular; these are not.  Keys: API and Kafka's struct name.
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
