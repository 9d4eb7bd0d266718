import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Produced;

/** Kafka Streams as a client of the suite: counts words, exactly once, as often as it is told to. */
public final class WordCount {
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(30);
    private static final Duration LET_GO = Duration.ofSeconds(2);
    private static final Map<String, KafkaStreams> OPEN = new HashMap<>();

    private WordCount() {}

    public static void main(String[] unused) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = Lines.JSON.readTree(line);
            ObjectNode answer = Lines.JSON.createObjectNode().put("id", command.get("id").asLong());
            try {
                answer.set("ok", answer(command.get("do").asText(), command.path("on").asText(), command));
            } catch (Exception error) {
                error.printStackTrace();
                answer.set("error", Lines.told(error));
            }
            answers.println(Lines.JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private static ObjectNode answer(String name, String on, JsonNode command) {
        ObjectNode told = Lines.JSON.createObjectNode();
        switch (name) {
            case "hello":
                return told.put("client", "kafka-streams").put("version", AppInfoParser.getVersion());
            case "reset":
                OPEN.values().forEach(it -> it.close(LET_GO));
                OPEN.clear();
                return told;
            case "open_word_count":
                OPEN.put(on, started(command));
                return told;
            case "state":
                return told.put("state", OPEN.get(on).state().name());
            case "close":
                OPEN.remove(on).close(CLOSE_TIMEOUT);
                return told;
            default:
                throw new UnsupportedOperationException(name);
        }
    }

    private static KafkaStreams started(JsonNode command) {
        KafkaStreams streams = new KafkaStreams(counting(command), settings(command));
        streams.start();
        return streams;
    }

    private static Topology counting(JsonNode command) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(command.get("source").asText())
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(Object::toString)
            .to(command.get("sink").asText(), Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    private static Properties settings(JsonNode command) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, command.get("bootstrap").asText());
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, command.get("application").asText());
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, command.get("client_id").asText());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, command.get("directory").asText());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("statestore.cache.max.bytes", 0); // every count is told
        settings.put("cache.max.bytes.buffering", 0); // its name before 3.4
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        return settings;
    }
}
