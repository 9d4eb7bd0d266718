import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeTopicsResult;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

/** What the library has had since 3.1 at the latest, or has done in this way since then. */
final class Versions {
    private Versions() {}

    static void letGo(Producer<?, ?> producer) {
        producer.close(Duration.ZERO);
    }

    static void letGo(AdminClient admin, Duration patience) {
        admin.close(patience);
    }

    static void sendOffsets(
        Producer<byte[], byte[]> producer, Consumers reader, Map<TopicPartition, OffsetAndMetadata> offsets
    ) {
        producer.sendOffsetsToTransaction(offsets, reader.consumer.groupMetadata());
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(
        Consumer<byte[], byte[]> consumer, List<TopicPartition> places
    ) {
        return consumer.committed(Set.copyOf(places));
    }

    static KafkaFuture<Map<String, TopicDescription>> described(DescribeTopicsResult found) {
        return found.allTopicNames();
    }

    static String instanceId(MemberDescription member) {
        return member.groupInstanceId().orElse(null);
    }

    static void ask(AdminClient admin, String command, JsonNode options, ObjectNode answer) throws Exception {
        switch (command) {
            case "alter_configs" -> alterConfigs(admin, options);
            case "alter_group_offsets" -> admin.alterConsumerGroupOffsets(options.get("group").asText(),
                Lines.offsets(options.get("offsets"))).all().get();
            case "delete_group_offsets" -> admin.deleteConsumerGroupOffsets(options.get("group").asText(),
                Set.copyOf(Lines.places(options.get("partitions")))).all().get();
            case "list_offsets" -> listOffsets(admin, options, answer);
            case "list_transactions" -> listTransactions(admin, answer.putArray("transactions"));
            case "describe_transaction" -> describeTransaction(admin, options, answer);
            default -> throw new UnsupportedOperationException(command);
        }
    }

    private static void alterConfigs(AdminClient admin, JsonNode options) throws Exception {
        Collection<AlterConfigOp> changes = new ArrayList<>();
        Lines.pairs(options.get("set")).forEach((key, value) ->
            changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        if (options.hasNonNull("unset")) {
            options.get("unset").forEach(it ->
                changes.add(new AlterConfigOp(new ConfigEntry(it.asText(), ""), AlterConfigOp.OpType.DELETE)));
        }
        admin.incrementalAlterConfigs(Map.of(Admins.resource(options), changes)).all().get();
    }

    private static void listOffsets(AdminClient admin, JsonNode options, ObjectNode answer) throws Exception {
        JsonNode at = options.get("at");
        OffsetSpec spec = at.isNumber() ? OffsetSpec.forTimestamp(at.asLong())
            : switch (at.asText()) {
                case "beginning" -> OffsetSpec.earliest();
                case "end" -> OffsetSpec.latest();
                default -> OffsetSpec.maxTimestamp();
            };
        TopicPartition place = Lines.place(options);
        long offset = admin.listOffsets(Map.of(place, spec)).partitionResult(place).get().offset();
        answer.put("offset", offset < 0 ? null : offset);
    }

    private static void listTransactions(AdminClient admin, ArrayNode transactions) throws Exception {
        for (TransactionListing it : admin.listTransactions().all().get()) {
            transactions.addObject().put("transactional_id", it.transactionalId()).put("state", it.state().toString());
        }
    }

    private static void describeTransaction(AdminClient admin, JsonNode options, ObjectNode answer) throws Exception {
        String id = options.get("transactional_id").asText();
        TransactionDescription found = admin.describeTransactions(List.of(id)).description(id).get();
        answer.put("state", found.state().toString()).set("partitions", Lines.told(found.topicPartitions()));
    }
}
