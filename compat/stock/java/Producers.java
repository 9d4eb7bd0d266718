import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Commands to producers. */
final class Producers {
    private Producers() {}

    static Producer<byte[], byte[]> open(JsonNode command) {
        Map<String, Object> settings = Lines.settings(command,
            "acks", "acks", "compression", "compression.type", "transactional_id", "transactional.id",
            "idempotent", "enable.idempotence", "transaction_timeout_ms", "transaction.timeout.ms",
            "linger_ms", "linger.ms", "batch_bytes_max", "batch.size", "request_bytes_max", "max.request.size",
            "delivery_timeout_ms", "delivery.timeout.ms", "request_timeout_ms", "request.timeout.ms");
        settings.put("max.block.ms", "15000");
        if (command.path("partitioner").asText().equals("last")) {
            settings.put("partitioner.class", Last.class.getName());
        }
        Producer<byte[], byte[]> producer =
            new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        if (command.hasNonNull("transactional_id")) {
            producer.initTransactions();
        }
        return producer;
    }

    static ObjectNode produce(Producer<byte[], byte[]> producer, JsonNode records) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode row : records) {
            sent.add(send(producer, row));
        }
        producer.flush();
        ObjectNode answer = Lines.JSON.createObjectNode();
        ArrayNode written = answer.putArray("written");
        for (Future<RecordMetadata> it : sent) {
            try {
                RecordMetadata found = it.get();
                written.addObject().put("topic", found.topic()).put("partition", found.partition())
                    .put("offset", found.offset());
            } catch (Exception error) {
                written.addObject().set("error", Lines.told(error));
            }
        }
        return answer;
    }

    private static Future<RecordMetadata> send(Producer<byte[], byte[]> producer, JsonNode row) {
        try {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                row.get("topic").asText(),
                row.hasNonNull("partition") ? row.get("partition").asInt() : null,
                row.hasNonNull("timestamp_ms") ? row.get("timestamp_ms").asLong() : null,
                Lines.octets(row.get("key")),
                Lines.octets(row.get("value")));
            row.get("headers").forEach(it -> record.headers().add(it.get(0).asText(), Lines.octets(it.get(1))));
            return producer.send(record);
        } catch (RuntimeException error) {
            return CompletableFuture.failedFuture(error);
        }
    }

    /** The greatest partition always. */
    public static final class Last implements Partitioner {
        @Override
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
            return cluster.partitionsForTopic(topic).size() - 1;
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> unused) {}
    }
}
