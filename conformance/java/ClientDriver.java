import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterPartitionReassignmentsOptions;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The Java client, controlled by lines of JSON: a request per line of stdin, a response per line of stdout, in turn.
 *
 * A request is {"do": name, "on": number of a producer or consumer, ...}, a response {"answer": ...} or {"code": the
 * protocol's error code, "error": text}.  Bytes are base64, times are milliseconds, a place is a topic and a partition.
 */
@SuppressWarnings("unchecked") // JSON values are untyped
public final class ClientDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String bootstrap;
    private final Admin admin;
    private final Duration patience;
    private final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
    private final List<KafkaConsumer<byte[], byte[]>> consumers = new ArrayList<>();
    private final List<KafkaShareConsumer<byte[], byte[]>> shareConsumers = new ArrayList<>();
    private final Map<List<Object>, ConsumerRecord<byte[], byte[]>> held = new HashMap<>(); // by topic, partition, offset

    private ClientDriver(String bootstrap, int patienceMs) {
        this.bootstrap = bootstrap;
        patience = Duration.ofMillis(patienceMs);
        admin = Admin.create(Map.of(
            "bootstrap.servers", bootstrap, "default.api.timeout.ms", patienceMs, "request.timeout.ms", patienceMs / 2));
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // stdout is for responses only, not for output of libraries
        ClientDriver driver = new ClientDriver(arguments[0], Integer.parseInt(arguments[1]));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("answer", JSON.valueToTree(driver.answer(JSON.readTree(line))));
            } catch (Exception failure) {
                answer.put("code", codeOf(failure)).put("error", failure.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // the parent has exited: its consumers must not leave their groups
    }

    private static short codeOf(Exception failure) {
        if (failure instanceof InvalidOffsetException) { // raised by the consumer itself, without an error code
            return Errors.OFFSET_OUT_OF_RANGE.code();
        }
        return Errors.forException(failure).code();
    }

    private Object answer(JsonNode request) throws Exception {
        String what = request.get("do").asText();
        switch (what) {
            case "producer":
                producers.add(new KafkaProducer<>(producing(request.get("options")), new ByteArraySerializer(), new ByteArraySerializer()));
                return producers.size() - 1;
            case "consumer":
                consumers.add(
                    new KafkaConsumer<>(consuming(request.get("options")), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
                return consumers.size() - 1;
            case "share consumer":
                KafkaShareConsumer<byte[], byte[]> sharing = new KafkaShareConsumer<>(
                    Map.of(
                        "bootstrap.servers", bootstrap,
                        "group.id", request.get("group").asText(),
                        "share.acknowledgement.mode", "explicit",
                        "metadata.max.age.ms", 1_000),
                    new ByteArrayDeserializer(), new ByteArrayDeserializer());
                sharing.subscribe(List.of(request.get("topic").asText()));
                shareConsumers.add(sharing);
                return shareConsumers.size() - 1;
            case "share":
                return share(shareConsumers.get(request.get("on").asInt()), request);
            case "close share consumer":
                shareConsumers.get(request.get("on").asInt()).close(patience);
                return null;
            case "send":
                return send(producers.get(request.get("on").asInt()), request);
            case "close producer":
                producers.get(request.get("on").asInt()).close(patience);
                return null;
            default:
                return request.has("on")
                    ? consume(what, consumers.get(request.get("on").asInt()), request)
                    : administrate(what, request);
        }
    }

    // ---- producer

    private Map<String, Object> producing(JsonNode options) {
        return Map.of(
            "bootstrap.servers", bootstrap,
            "acks", options.get("acks").asText(),
            "compression.type", options.get("compression").asText(),
            "enable.idempotence", options.get("idempotent").asBoolean(),
            "max.request.size", options.get("request_bytes_max").asInt(),
            "request.timeout.ms", options.get("request_timeout_ms").asInt(),
            "linger.ms", 1);
    }

    private static Object send(KafkaProducer<byte[], byte[]> producer, JsonNode request) throws Exception {
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        for (JsonNode each : request.get("records")) {
            List<Header> headers = new ArrayList<>();
            for (JsonNode header : each.get("headers")) {
                headers.add(new RecordHeader(header.get(0).asText(), header.get(1).binaryValue()));
            }
            JsonNode partition = each.get("partition");
            JsonNode timestamp = each.get("timestamp");
            answers.add(producer.send(new ProducerRecord<>(
                request.get("topic").asText(),
                partition.isNull() ? null : partition.asInt(),
                timestamp.isNull() ? null : timestamp.asLong(),
                each.get("key").binaryValue(),
                each.get("value").binaryValue(),
                headers)));
        }
        producer.flush();
        List<long[]> places = new ArrayList<>();
        for (Future<RecordMetadata> answer : answers) {
            places.add(new long[] {answer.get().partition(), answer.get().offset()});
        }
        return places;
    }

    // ---- consumer

    private Map<String, Object> consuming(JsonNode options) {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("enable.auto.commit", false);
        properties.put("auto.offset.reset", options.get("reset").asText());
        properties.put("session.timeout.ms", options.get("session_ms").asInt());
        properties.put("heartbeat.interval.ms", 500);
        properties.put("metadata.max.age.ms", 1_000);
        properties.put("fetch.max.wait.ms", 100);
        properties.put("max.partition.fetch.bytes", options.get("fetch_bytes_max").asInt());
        properties.put("allow.auto.create.topics", false);
        if (!options.get("group").isNull()) {
            properties.put("group.id", options.get("group").asText());
        }
        if (!options.get("instance_id").isNull()) {
            properties.put("group.instance.id", options.get("instance_id").asText());
        }
        return properties;
    }

    private Object consume(String what, KafkaConsumer<byte[], byte[]> consumer, JsonNode request) {
        switch (what) {
            case "subscribe":
                consumer.subscribe(JSON.convertValue(request.get("topics"), List.class));
                return null;
            case "assign":
                Map<TopicPartition, Long> offsets = numbers(request.get("offsets"));
                consumer.assign(offsets.keySet());
                offsets.forEach(consumer::seek);
                return null;
            case "assignment":
                return consumer.assignment().stream().map(each -> List.of(each.topic(), each.partition())).toList();
            case "poll":
                List<Object> records = new ArrayList<>();
                consumer.poll(Duration.ofMillis(request.get("ms").asLong())).forEach(each -> records.add(described(each)));
                return records;
            case "seek":
                numbers(request.get("offsets")).forEach(consumer::seek);
                return null;
            case "commit":
                Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
                numbers(request.get("offsets")).forEach((place, offset) -> wanted.put(place, new OffsetAndMetadata(offset)));
                consumer.commitSync(wanted, patience);
                return null;
            case "committed":
                OffsetAndMetadata committed = consumer.committed(Set.of(place(request)), patience).get(place(request));
                return committed == null ? null : committed.offset();
            case "offsets for times":
                Map<TopicPartition, OffsetAndTimestamp> found =
                    consumer.offsetsForTimes(numbers(request.get("timestamps")), patience);
                List<Object> rows = new ArrayList<>();
                found.forEach((place, at) -> rows.add(row(place.topic(), place.partition(), at == null ? null : at.offset())));
                return rows;
            case "bounds":
                TopicPartition place = place(request);
                if (consumer.partitionsFor(place.topic(), patience).isEmpty()) { // for unknown topics, offset lookups would retry
                    throw new UnknownTopicOrPartitionException("unknown topic " + place.topic());
                }
                return List.of(
                    consumer.beginningOffsets(Set.of(place), patience).get(place),
                    consumer.endOffsets(Set.of(place), patience).get(place));
            case "close consumer":
                consumer.close();
                return null;
            default:
                throw new IllegalArgumentException("nothing that a consumer does: " + what);
        }
    }

    // ---- share consumer

    /** Poll, or acknowledge the records of the last poll: each acknowledgement is a place, an offset and a type. */
    private Object share(KafkaShareConsumer<byte[], byte[]> consumer, JsonNode request) {
        if (request.has("ms")) {
            List<Object> records = new ArrayList<>();
            consumer.poll(Duration.ofMillis(request.get("ms").asLong())).forEach(each -> {
                held.put(List.of(each.topic(), each.partition(), each.offset()), each);
                records.add(row(each.topic(), each.partition(), each.offset(), each.value(), each.deliveryCount().get()));
            });
            return records;
        }
        for (JsonNode each : request.get("acknowledgements")) {
            ConsumerRecord<byte[], byte[]> record =
                held.remove(List.of(each.get(0).asText(), each.get(1).asInt(), each.get(2).asLong()));
            consumer.acknowledge(record, AcknowledgeType.valueOf(each.get(3).asText()));
        }
        consumer.commitSync(patience).values().forEach(failure -> failure.ifPresent(it -> {
            throw it;
        }));
        return null;
    }

    private static Object described(ConsumerRecord<byte[], byte[]> record) {
        List<Object> headers = new ArrayList<>();
        record.headers().forEach(each -> headers.add(row(each.key(), each.value())));
        return row(
            record.topic(), record.partition(), record.offset(), record.timestamp(), record.key(), record.value(), headers);
    }

    /** A list that may hold nulls. */
    private static List<Object> row(Object... cells) {
        return Arrays.asList(cells);
    }

    private static TopicPartition place(JsonNode request) {
        return new TopicPartition(request.get("topic").asText(), request.get("partition").asInt());
    }

    private static Map<TopicPartition, Long> numbers(JsonNode rows) {
        Map<TopicPartition, Long> numbers = new LinkedHashMap<>();
        for (JsonNode row : rows) {
            numbers.put(new TopicPartition(row.get(0).asText(), row.get(1).asInt()), row.get(2).asLong());
        }
        return numbers;
    }

    // ---- admin

    private Object administrate(String what, JsonNode request) throws Exception {
        String name = request.path("name").asText();
        switch (what) {
            case "create topic":
                NewTopic topic = new NewTopic(name, request.get("partitions").asInt(), (short) request.get("replicas").asInt());
                topic.configs(JSON.convertValue(request.get("configs"), Map.class));
                return admin.createTopics(List.of(topic)).all().get();
            case "delete topic":
                return admin.deleteTopics(List.of(name)).all().get();
            case "create partitions":
                NewPartitions more = NewPartitions.increaseTo(request.get("total").asInt());
                return admin.createPartitions(Map.of(name, more)).all().get();
            case "topics":
                return partitionCounts();
            case "topic configs":
                return configs(new ConfigResource(ConfigResource.Type.TOPIC, name));
            case "broker configs":
                int broker = admin.describeCluster().nodes().get().stream().mapToInt(Node::id).min().getAsInt();
                return configs(new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(broker)));
            case "alter topic config":
                ConfigEntry entry = new ConfigEntry(request.get("key").asText(), request.get("value").asText());
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
                List<AlterConfigOp> change = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                return admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
            case "alter group config":
                ConfigEntry groupEntry = new ConfigEntry(request.get("key").asText(), request.get("value").asText());
                ConfigResource ofGroup = new ConfigResource(ConfigResource.Type.GROUP, name);
                List<AlterConfigOp> groupChange = List.of(new AlterConfigOp(groupEntry, AlterConfigOp.OpType.SET));
                return admin.incrementalAlterConfigs(Map.of(ofGroup, groupChange)).all().get();
            case "delete records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
                return admin.deleteRecords(Map.of(place(request), before)).all().get();
            case "groups":
                return admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get()
                    .stream().map(GroupListing::groupId).toList();
            case "describe group":
                ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(name)).describedGroups().get(name).get();
                return List.of(group.groupState().toString(), group.members().size());
            case "delete group":
                return admin.deleteConsumerGroups(List.of(name)).all().get();
            case "replicas":
                return admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions()
                    .stream().map(each -> each.replicas().stream().map(Node::id).toList()).toList();
            case "reassign":
                AlterPartitionReassignmentsOptions options = new AlterPartitionReassignmentsOptions()
                    .allowReplicationFactorChange(request.get("may_change_factor").asBoolean());
                return admin.alterPartitionReassignments(goals(name, request.get("goals")), options).all().get();
            case "reassigning":
                List<Object> moves = new ArrayList<>();
                admin.listPartitionReassignments().reassignments().get().forEach((at, move) ->
                    moves.add(row(at.topic(), at.partition(), move.replicas(), move.addingReplicas(), move.removingReplicas())));
                return moves;
            default:
                throw new IllegalArgumentException("nothing that an administrator does: " + what);
        }
    }

    /** The goals of a topic's partitions, each with its brokers, or null to cancel what is under way. */
    private static Map<TopicPartition, Optional<NewPartitionReassignment>> goals(String topic, JsonNode rows) {
        Map<TopicPartition, Optional<NewPartitionReassignment>> goals = new HashMap<>();
        for (JsonNode row : rows) {
            List<Integer> brokers = JSON.convertValue(row.get(1), List.class);
            goals.put(new TopicPartition(topic, row.get(0).asInt()), Optional.ofNullable(brokers).map(NewPartitionReassignment::new));
        }
        return goals;
    }

    private Map<String, Integer> partitionCounts() throws Exception {
        Map<String, Integer> counts = new HashMap<>();
        Set<String> names = admin.listTopics().names().get();
        for (var each : admin.describeTopics(TopicCollection.ofTopicNames(names)).topicNameValues().entrySet()) {
            try {
                counts.put(each.getKey(), each.getValue().get().partitions().size());
            } catch (ExecutionException failure) {
                if (!(failure.getCause() instanceof UnknownTopicOrPartitionException)) { // deleted meanwhile
                    throw failure;
                }
            }
        }
        return counts;
    }

    private Map<String, String> configs(ConfigResource resource) throws Exception {
        Map<String, String> configs = new HashMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.put(entry.name(), entry.value());
        }
        return configs;
    }
}
