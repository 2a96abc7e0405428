"""The broker stores kafka-python's batches in the codec of their topic, and kafka-python can read them."""

import uuid
import warnings
from collections.abc import Iterable
from contextlib import closing

from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.clients.conftest import RunningBroker
from tidemill.batches.batch import spans
from tidemill.batches.compression import Codec
from tidemill.client.cluster_metadata import ClusterMetadata
from tidemill.client.connection_settings import from_keys
from tidemill.client.raw_fetcher import RawFetcher
from tidemill.model.partition import TopicPartition

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # the library reads its schemas in a deprecated way
    import kafka

SECONDS_MAX = 20
# Not snappy: kafka-python would need a library.
CODECS = {None: Codec.NONE, "gzip": Codec.GZIP, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
RECORDS = [(b"k%d" % n, b"%05d" % n + b"tide mill " * (n % 300), [("h", b"%d" % n)]) for n in range(400)]


def created(bootstrap: str, compression_type: str) -> str:
    name = f"recompressed-{uuid.uuid4().hex[:12]}"
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config={"compression.type": compression_type})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result(SECONDS_MAX)
    return name


def send(bootstrap: str, topics: Iterable[str], codec: str | None) -> None:
    with closing(kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=5)) as producer:
        sent = [
            producer.send(topic, key=key, value=value, headers=headers)
            for key, value, headers in RECORDS
            for topic in topics
        ]
        for future in sent:
            future.get(SECONDS_MAX)


def read(bootstrap: str, topic: str, count: int) -> list[tuple[object, object, object]]:
    with closing(kafka.KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=SECONDS_MAX * 1000)) as consumer:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        records = [record for _, record in zip(range(count), consumer, strict=False)]
    return [(record.key, record.value, record.headers) for record in records]


def test_kafka_python_s_records_are_stored_in_the_topic_s_codec(broker: RunningBroker) -> None:
    """
    kafka-python sends records with each codec and reads equal records.  The batches that the broker serves have the
    topic's codec.
    """
    topics = {kept: created(broker.bootstrap, name or "uncompressed") for name, kept in CODECS.items()}

    for codec in CODECS:
        send(broker.bootstrap, topics.values(), codec)

    expected = RECORDS * len(CODECS)
    with closing(ClusterMetadata(from_keys({"bootstrap.servers": broker.bootstrap}))) as cluster:
        for kept, topic in topics.items():
            assert expected == read(broker.bootstrap, topic, len(expected))
            runs = RawFetcher(cluster).batches(TopicPartition(topic, 0), 0, len(expected))
            assert {kept} == {span.header.codec for run in runs for span in spans(run)}
