import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Commands to one consumer, and how far its polls have come. */
final class Consumers implements AutoCloseable {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    final Consumer<byte[], byte[]> consumer;
    final String group;
    private final Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();

    Consumers(JsonNode command) {
        Map<String, Object> settings = Lines.settings(command,
            "group", "group.id", "instance_id", "group.instance.id", "isolation", "isolation.level",
            "reset", "auto.offset.reset", "session_timeout_ms", "session.timeout.ms",
            "heartbeat_interval_ms", "heartbeat.interval.ms", "fetch_bytes_min", "fetch.min.bytes",
            "fetch_wait_ms_max", "fetch.max.wait.ms", "partition_bytes_max", "max.partition.fetch.bytes",
            "records_max", "max.poll.records", "protocol", "group.protocol");
        settings.put("enable.auto.commit", "false");
        settings.put("default.api.timeout.ms", "15000");
        settings.put("request.timeout.ms", "15000");
        if (command.hasNonNull("assignor")) {
            String assignor = command.get("assignor").asText();
            if (command.path("protocol").asText().equals("consumer")) {
                settings.put("group.remote.assignor", assignor);
            } else {
                settings.put("partition.assignment.strategy", ASSIGNORS.get(assignor));
            }
        }
        group = command.path("group").asText();
        consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public void close() {
        consumer.close();
    }

    void letGo(Duration patience) {
        consumer.close(patience);
    }

    void assign(JsonNode partitions) {
        Map<TopicPartition, JsonNode> wanted = new HashMap<>();
        partitions.forEach(it -> wanted.put(Lines.place(it), it.get("offset")));
        consumer.assign(wanted.keySet());
        wanted.forEach(this::goTo);
    }

    void goTo(TopicPartition place, JsonNode offset) {
        positions.remove(place);
        if (offset.isNumber()) {
            consumer.seek(place, offset.asLong());
        } else if (offset.asText().equals("beginning")) {
            consumer.seekToBeginning(Set.of(place));
        } else if (offset.asText().equals("end")) {
            consumer.seekToEnd(Set.of(place));
            consumer.position(place);
        }
    }

    ObjectNode poll(long timeoutMs) {
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode records = answer.putArray("records");
        for (ConsumerRecord<byte[], byte[]> it : consumer.poll(Duration.ofMillis(timeoutMs))) {
            ObjectNode told = records.addObject()
                .put("topic", it.topic()).put("partition", it.partition()).put("offset", it.offset())
                .put("timestamp_ms", it.timestamp())
                .put("key", Lines.text(it.key())).put("value", Lines.text(it.value()));
            ArrayNode headers = told.putArray("headers");
            for (Header header : it.headers()) {
                headers.addArray().add(header.key()).add(Lines.text(header.value()));
            }
            positions.put(new TopicPartition(it.topic(), it.partition()), new OffsetAndMetadata(it.offset() + 1));
        }
        answer.set("assignment", Lines.told(consumer.assignment()));
        return answer;
    }

    void commit(JsonNode offsets) {
        consumer.commitSync(offsets == null || offsets.isNull() ? positions : Lines.offsets(offsets));
    }

    ObjectNode committed(List<TopicPartition> places) {
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode offsets = answer.putArray("offsets");
        Map<TopicPartition, OffsetAndMetadata> found = Versions.committed(consumer, places);
        places.forEach(it -> offsets.add(Lines.told(it, found.get(it))));
        return answer;
    }

    ObjectNode offsetsAt(List<TopicPartition> places, JsonNode at) {
        Map<TopicPartition, Long> found = new HashMap<>();
        if (at.isNumber()) {
            Map<TopicPartition, Long> wanted = new HashMap<>();
            places.forEach(it -> wanted.put(it, at.asLong()));
            for (Map.Entry<TopicPartition, OffsetAndTimestamp> it : consumer.offsetsForTimes(wanted).entrySet()) {
                found.put(it.getKey(), it.getValue() == null ? null : it.getValue().offset());
            }
        } else if (at.asText().equals("beginning")) {
            found = consumer.beginningOffsets(places);
        } else {
            found = consumer.endOffsets(places);
        }
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode offsets = answer.putArray("offsets");
        for (TopicPartition it : places) {
            offsets.addObject().put("topic", it.topic()).put("partition", it.partition()).put("offset", found.get(it));
        }
        return answer;
    }
}
