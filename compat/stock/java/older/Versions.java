import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** The same as the newer ones do, with what there was in 2.1; the manifest lets nobody ask for more. */
final class Versions {
    private Versions() {}

    static void letGo(Producer<?, ?> producer) {
        producer.close(0, TimeUnit.MILLISECONDS);
    }

    static void letGo(AdminClient admin, Duration patience) {
        admin.close(patience.toMillis(), TimeUnit.MILLISECONDS);
    }

    /** The group is named alone, neither its generation nor the member (KIP-447). */
    static void sendOffsets(
        Producer<byte[], byte[]> producer, Consumers reader, Map<TopicPartition, OffsetAndMetadata> offsets
    ) {
        producer.sendOffsetsToTransaction(offsets, reader.group);
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(
        Consumer<byte[], byte[]> consumer, List<TopicPartition> places
    ) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        places.forEach(it -> found.put(it, consumer.committed(it)));
        return found;
    }

    static KafkaFuture<Map<String, TopicDescription>> described(DescribeTopicsResult found) {
        return found.all();
    }

    static String instanceId(MemberDescription member) {
        return null;
    }

    static void ask(AdminClient admin, String command, JsonNode options, ObjectNode answer) {
        throw new UnsupportedOperationException(command);
    }
}
