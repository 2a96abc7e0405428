import java.time.Duration;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The consumers of one case of benchmarks/share_groups.py, with Kafka's Java client: one thread for each consumer.
 *
 * Arguments: bootstrap server, topic, partitions, consumers, records, bytes per record, percent of records to release.
 * The consumers join on the empty topic.  When each has its partitions, the records are produced, and a quarter more to
 * warm up; then the consumers begin at the same time.  The clock runs from the acceptance of that quarter until each
 * record is accepted.  Prints one line of JSON.
 */
public final class ShareDriver {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_S = 180;
    // A released record is available again at once, so it comes back; on its last but one delivery it is accepted, so
    // that no record reaches the limit on deliveries, which is 5.
    private static final int RELEASED_DELIVERIES_MAX = 3;

    private final String bootstrap;
    private final String topic;
    private final int partitions;
    private final int consumers;
    private final int records; // that count
    private final int warmUp; // further records, accepted before
    private final int released;
    private final CountDownLatch begin = new CountDownLatch(1);
    private final CountDownLatch paused;
    private final CountDownLatch done = new CountDownLatch(1);
    private final AtomicInteger accepted = new AtomicInteger();
    private final AtomicInteger polls = new AtomicInteger(); // that returned records, after the warm-up
    private final AtomicInteger deliveries = new AtomicInteger(); // after the warm-up
    private final AtomicLong beganAt = new AtomicLong(); // nanoseconds: the end of the warm-up
    private final AtomicReference<Throwable> failure = new AtomicReference<>();
    private final List<BitSet> seen = new ArrayList<>(); // accepted offsets, by partition
    private volatile boolean isJoined;

    private ShareDriver(String[] arguments) {
        bootstrap = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        consumers = Integer.parseInt(arguments[3]);
        records = Integer.parseInt(arguments[4]);
        warmUp = records / 4;
        released = Integer.parseInt(arguments[6]);
        paused = new CountDownLatch(consumers);
        for (int partition = 0; partition < partitions; partition++) {
            seen.add(new BitSet());
        }
    }

    public static void main(String[] arguments) throws Exception {
        new ShareDriver(arguments).run(Integer.parseInt(arguments[5]));
    }

    private void run(int recordBytes) throws Exception {
        List<Thread> threads = new ArrayList<>();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get(30, TimeUnit.SECONDS);
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            admin.incrementalAlterConfigs(Map.of(group, List.of(
                set("share.auto.offset.reset", "earliest"),
                set("share.record.lock.duration.ms", "60000")))) // a fetch in flight may get the first records produced
                .all().get(30, TimeUnit.SECONDS);
            for (int number = 0; number < consumers; number++) {
                Thread thread = new Thread(new Worker(number), "consumer-" + number);
                threads.add(thread);
                thread.start();
            }
            awaitMembers(admin);
            isJoined = true;
            await(paused, "the consumers do not pause");
            produce(recordBytes);
            begin.countDown();
            await(done, "not all records are accepted");
            double seconds = (System.nanoTime() - beganAt.get()) / 1e9;
            int counted = polls.get();
            for (Thread thread : threads) {
                thread.join(PATIENCE_S * 1_000);
            }
            if (failure.get() != null) {
                throw new IllegalStateException(failure.get());
            }
            System.out.printf(
                "{\"value\": %.1f, \"seconds\": %.3f, \"rounds\": %.1f, \"deliveries\": %d}%n",
                records / seconds, seconds, counted / seconds, deliveries.get());
        }
    }

    private static AlterConfigOp set(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    private void await(CountDownLatch latch, String problem) throws InterruptedException {
        if (!latch.await(PATIENCE_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException(problem + " after " + PATIENCE_S + " s");
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
    }

    /** Wait until the coordinator has assigned partitions to each member. */
    private void awaitMembers(Admin admin) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (System.nanoTime() < end && failure.get() == null) {
            ShareGroupDescription group;
            try {
                group = admin.describeShareGroups(List.of(topic)).all().get(30, TimeUnit.SECONDS).get(topic);
            } catch (java.util.concurrent.ExecutionException unknown) {
                Thread.sleep(100); // the group does not exist before its first member joins
                continue;
            }
            long ready = group.members().stream().filter(it -> !it.assignment().topicPartitions().isEmpty()).count();
            if (ready == consumers) {
                return;
            }
            Thread.sleep(100);
        }
        throw new IllegalStateException("not every member has partitions", failure.get());
    }

    private void produce(int recordBytes) throws InterruptedException {
        byte[] value = new byte[recordBytes];
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap, "acks", "all"),
                new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int at = 0; at < warmUp + records; at++) {
                producer.send(new ProducerRecord<>(topic, at % partitions, null, value), (sent, error) -> {
                    if (error != null) {
                        fail(error);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw new IllegalStateException(failure.get());
        }
    }

    private void fail(Throwable error) {
        failure.compareAndSet(null, error);
        done.countDown();
        while (paused.getCount() > 0) {
            paused.countDown();
        }
    }

    private final class Worker implements Runnable {
        private final SplittableRandom random;
        private boolean isPaused;

        Worker(int number) {
            random = new SplittableRandom(number);
        }

        @Override
        public void run() {
            Map<String, Object> settings = new HashMap<>();
            settings.put("bootstrap.servers", bootstrap);
            settings.put("group.id", topic);
            settings.put("share.acknowledgement.mode", "explicit");
            try (KafkaShareConsumer<byte[], byte[]> consumer =
                    new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                    if (error != null) {
                        fail(error);
                    }
                });
                consumer.subscribe(List.of(topic));
                while (done.getCount() > 0) {
                    treat(consumer);
                    if (isJoined && !isPaused) {
                        isPaused = true;
                        paused.countDown();
                        begin.await(PATIENCE_S, TimeUnit.SECONDS);
                    }
                }
            } catch (Throwable error) {
                fail(error);
            }
        }

        private void treat(KafkaShareConsumer<byte[], byte[]> consumer) {
            ConsumerRecords<byte[], byte[]> got = consumer.poll(POLL);
            if (got.isEmpty()) {
                return;
            }
            int accepts = 0;
            for (ConsumerRecord<byte[], byte[]> record : got) {
                boolean isReleased = released > 0 && record.deliveryCount().orElse((short) 1) <= RELEASED_DELIVERIES_MAX
                    && random.nextInt(100) < released;
                consumer.acknowledge(record, isReleased ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                if (!isReleased) {
                    accepts += isFirst(record) ? 1 : 0;
                }
            }
            consumer.commitAsync();
            if (beganAt.get() != 0) {
                polls.incrementAndGet();
                deliveries.addAndGet(got.count());
            }
            int total = accepted.addAndGet(accepts);
            if (total >= warmUp) {
                beganAt.compareAndSet(0, System.nanoTime());
            }
            if (total >= warmUp + records) {
                done.countDown();
            }
        }

        private boolean isFirst(ConsumerRecord<byte[], byte[]> record) {
            BitSet offsets = seen.get(record.partition());
            synchronized (offsets) {
                int offset = (int) record.offset();
                boolean isNew = !offsets.get(offset);
                offsets.set(offset);
                return isNew;
            }
        }
    }
}
