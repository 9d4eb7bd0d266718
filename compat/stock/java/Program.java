import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Apache's own Java client as a client of the suite: a line of JSON in, a line of JSON out. */
public final class Program {
    private static final Duration LET_GO = Duration.ofSeconds(2);
    private static final Map<String, AutoCloseable> OPEN = new HashMap<>();

    private Program() {}

    public static void main(String[] unused) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            JsonNode command = Lines.JSON.readTree(line);
            ObjectNode answer = Lines.JSON.createObjectNode().put("id", command.get("id").asLong());
            try {
                ObjectNode found = answer(command.get("do").asText(), command.path("on").asText(), command);
                answer.set("ok", found == null ? Lines.JSON.createObjectNode() : found);
            } catch (Exception error) {
                error.printStackTrace();
                answer.set("error", Lines.told(error));
            }
            answers.println(Lines.JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    private static ObjectNode answer(String name, String on, JsonNode command) throws Exception {
        switch (name) {
            case "hello":
                return Lines.JSON.createObjectNode().put("client", "java").put("version", AppInfoParser.getVersion());
            case "reset":
                reset();
                return null;
            case "close":
                OPEN.remove(on).close();
                return null;
            case "open_producer":
                OPEN.put(on, Producers.open(command));
                return null;
            case "open_consumer":
                OPEN.put(on, new Consumers(command));
                return null;
            case "open_admin":
                OPEN.put(on, Admins.open(command));
                return null;
            default:
                return toOpened(OPEN.get(on), name, command);
        }
    }

    private static ObjectNode toOpened(AutoCloseable opened, String name, JsonNode command) throws Exception {
        if (opened instanceof Producer<?, ?> producer) {
            @SuppressWarnings("unchecked")
            Producer<byte[], byte[]> its = (Producer<byte[], byte[]>) producer;
            return toProducer(its, name, command);
        }
        if (opened instanceof Consumers consumers) {
            return toConsumer(consumers, name, command);
        }
        return Admins.ask((AdminClient) opened, name, command);
    }

    private static ObjectNode toProducer(Producer<byte[], byte[]> producer, String name, JsonNode command) {
        switch (name) {
            case "produce":
                return Producers.produce(producer, command.get("records"));
            case "begin":
                producer.beginTransaction();
                return null;
            case "send_offsets":
                Consumers consumers = (Consumers) OPEN.get(command.get("consumer").asText());
                Versions.sendOffsets(producer, consumers, Lines.offsets(command.get("offsets")));
                return null;
            case "commit_transaction":
                producer.commitTransaction();
                return null;
            case "abort_transaction":
                producer.abortTransaction();
                return null;
            default:
                throw new UnsupportedOperationException(name);
        }
    }

    private static ObjectNode toConsumer(Consumers opened, String name, JsonNode command) {
        switch (name) {
            case "subscribe":
                opened.consumer.subscribe(Lines.strings(command.get("topics")));
                return null;
            case "assign":
                opened.assign(command.get("partitions"));
                return null;
            case "poll":
                return opened.poll(command.get("timeout_ms").asLong());
            case "seek":
                opened.goTo(Lines.place(command), command.get("offset"));
                return null;
            case "position":
                return Lines.JSON.createObjectNode().put("offset", opened.consumer.position(Lines.place(command)));
            case "pause":
                opened.consumer.pause(Lines.places(command.get("partitions")));
                return null;
            case "resume":
                opened.consumer.resume(Lines.places(command.get("partitions")));
                return null;
            case "commit":
                opened.commit(command.get("offsets"));
                return null;
            case "committed":
                return opened.committed(Lines.places(command.get("partitions")));
            case "offsets_at":
                return opened.offsetsAt(Lines.places(command.get("partitions")), command.get("at"));
            default:
                throw new UnsupportedOperationException(name);
        }
    }

    /** Close whatever is open, quickly. */
    private static void reset() {
        for (AutoCloseable it : OPEN.values()) {
            try {
                if (it instanceof Producer<?, ?> producer) {
                    Versions.letGo(producer);
                } else if (it instanceof Consumers consumers) {
                    consumers.letGo(LET_GO);
                } else {
                    Versions.letGo((AdminClient) it, LET_GO);
                }
            } catch (RuntimeException error) {
                error.printStackTrace();
            }
        }
        OPEN.clear();
    }
}
