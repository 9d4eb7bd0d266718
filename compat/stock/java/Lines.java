import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownServerException;
import org.apache.kafka.common.protocol.Errors;

/** What the line protocol and the library call the same things. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    private Lines() {}

    /** The settings of a client: those options that are not null, by the library's names. */
    static Map<String, Object> settings(JsonNode command, String... optionsAndNames) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", command.get("bootstrap").asText());
        settings.put("client.id", command.get("client_id").asText());
        settings.put("reconnect.backoff.max.ms", "500");
        for (int i = 0; i < optionsAndNames.length; i += 2) {
            if (command.hasNonNull(optionsAndNames[i])) {
                settings.put(optionsAndNames[i + 1], command.get(optionsAndNames[i]).asText());
            }
        }
        return settings;
    }

    static byte[] octets(JsonNode text) {
        return text == null || text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    static String text(byte[] octets) {
        return octets == null ? null : Base64.getEncoder().encodeToString(octets);
    }

    static List<String> strings(JsonNode array) {
        List<String> found = new ArrayList<>();
        array.forEach(it -> found.add(it.asText()));
        return found;
    }

    static Map<String, String> pairs(JsonNode object) {
        Map<String, String> found = new HashMap<>();
        if (object != null && !object.isNull()) {
            object.fields().forEachRemaining(it -> found.put(it.getKey(), it.getValue().asText()));
        }
        return found;
    }

    static TopicPartition place(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    /** A list of [topic, partition]. */
    static List<TopicPartition> places(JsonNode array) {
        List<TopicPartition> found = new ArrayList<>();
        array.forEach(it -> found.add(new TopicPartition(it.get(0).asText(), it.get(1).asInt())));
        return found;
    }

    static ArrayNode told(Set<TopicPartition> places) {
        ArrayNode told = JSON.createArrayNode();
        places.stream()
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .forEach(it -> told.addArray().add(it.topic()).add(it.partition()));
        return told;
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode array) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        for (JsonNode it : array) {
            String metadata = it.hasNonNull("metadata") ? it.get("metadata").asText() : "";
            found.put(place(it), new OffsetAndMetadata(it.get("offset").asLong(), metadata));
        }
        return found;
    }

    static ObjectNode told(TopicPartition place, OffsetAndMetadata offset) {
        ObjectNode told = JSON.createObjectNode().put("topic", place.topic()).put("partition", place.partition());
        if (offset == null) {
            return told.putNull("offset").putNull("metadata");
        }
        return told.put("offset", offset.offset()).put("metadata", offset.metadata());
    }

    static ObjectNode told(Throwable thrown) {
        Throwable error = thrown;
        while (error.getCause() != null && isWrapper(error)) {
            error = error.getCause();
        }
        return JSON.createObjectNode()
            .put("code", codeOf(error))
            .put("text", error.getClass().getSimpleName() + ": " + error.getMessage());
    }

    private static boolean isWrapper(Throwable error) {
        return error instanceof ExecutionException || error instanceof CompletionException
            || (error.getClass() == KafkaException.class && error.getCause() instanceof KafkaException);
    }

    private static String codeOf(Throwable error) {
        if (error instanceof UnsupportedOperationException) {
            return "UNSUPPORTED";
        }
        if (error instanceof TimeoutException) {
            return "TIMED_OUT";
        }
        if (error instanceof CommitFailedException) {
            return "COMMIT_FAILED";
        }
        if (error instanceof OffsetOutOfRangeException) {
            return "OFFSET_OUT_OF_RANGE";
        }
        if (!(error instanceof ApiException) || error instanceof InvalidOffsetException) {
            return "CLIENT";
        }
        Errors code = Errors.forException(error);
        boolean isKnown = code != Errors.UNKNOWN_SERVER_ERROR || error instanceof UnknownServerException;
        return isKnown ? code.name() : "CLIENT";
    }
}
