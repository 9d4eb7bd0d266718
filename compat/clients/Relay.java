import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A relay with Apache Kafka's Java client; relay_program.py describes relays.
 *
 * Its options are KEY=VALUE on the command line. It stops cleanly at the end of standard input.
 */
public final class Relay implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int COMMITS_MAX = 5;
    private static volatile boolean stopping = false;

    private final Map<String, String> options;
    private final OwnHistory history;
    private final Random chance;
    private final boolean isTransactional;
    private int sends = 0;
    private int transactions = 0;
    private int commits = 0;
    private KafkaConsumer<String, String> consumer;
    private KafkaProducer<String, String> producer;

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        Thread parent = new Thread(Relay::stopWhenTheParentIsGone);
        parent.setDaemon(true);
        parent.start();
        new Relay(options).run();
    }

    private static void stopWhenTheParentIsGone() {
        try {
            System.in.read();
        } catch (IOException gone) {
            // like the end of the input
        }
        stopping = true;
    }

    private Relay(Map<String, String> options) throws IOException {
        this.options = options;
        this.history = new OwnHistory(options.get("history"), options.get("name"));
        this.chance = new Random(Long.parseLong(options.get("seed")));
        this.isTransactional = options.get("guarantee").equals("exactly once");
    }

    private void run() throws InterruptedException {
        try {
            open();
            tell("started", "");
            while (!stopping) {
                List<ConsumerRecord<String, String>> found = poll();
                if (!found.isEmpty()) {
                    relay(found);
                }
            }
            consumer.close();
            producer.close();
            tell("ended", "");
        } catch (KafkaException stopped) {
            tell("stopped", ", \"reason\": " + OwnHistory.text(stopped.toString()));
            Runtime.getRuntime().halt(1);
        }
    }

    private void open() {
        producer = new KafkaProducer<>(producerSettings(), new StringSerializer(), new StringSerializer());
        if (isTransactional) {
            producer.initTransactions();
        }
        consumer = new KafkaConsumer<>(consumerSettings(), new StringDeserializer(), new StringDeserializer());
        if (options.containsKey("partitions")) {
            List<TopicPartition> own = new ArrayList<>();
            for (String partition : options.get("partitions").split(",")) {
                own.add(new TopicPartition(options.get("source"), Integer.parseInt(partition)));
            }
            consumer.assign(own);
            onPartitionsAssigned(own);
        } else {
            consumer.subscribe(List.of(options.get("source")), this);
        }
    }

    private Properties producerSettings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("client.id", options.get("name"));
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("max.block.ms", "5000");
        settings.put("request.timeout.ms", "4000");
        settings.put("delivery.timeout.ms", "5000");
        switch (options.get("guarantee")) {
            case "at most once" -> {
                settings.put("enable.idempotence", "false");
                settings.put("retries", "0");
                settings.put("acks", "1");
            }
            case "at least once" -> {
                settings.put("enable.idempotence", "false");
                settings.put("max.in.flight.requests.per.connection", "1");
                settings.put("acks", "all");
            }
            default -> {
                settings.put("transactional.id", options.get("transactional_id"));
                settings.put("transaction.timeout.ms", options.get("transaction_timeout_ms"));
            }
        }
        return settings;
    }

    private Properties consumerSettings() {
        int sessionTimeoutMs = Integer.parseInt(options.get("session_timeout_ms"));
        Properties settings = new Properties();
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("client.id", options.get("name"));
        settings.put("group.id", options.get("group"));
        settings.put("group.protocol", "classic");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("session.timeout.ms", String.valueOf(sessionTimeoutMs));
        settings.put("heartbeat.interval.ms", String.valueOf(sessionTimeoutMs / 6));
        settings.put("max.poll.records", options.get("records_max"));
        settings.put("fetch.max.wait.ms", "50");
        settings.put("reconnect.backoff.max.ms", "500");
        return settings;
    }

    private List<ConsumerRecord<String, String>> poll() {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        consumer.poll(POLL).forEach(found::add);
        if (!found.isEmpty()) {
            history.add("polled", ", \"isolation\": \"read_committed\", \"records\": " + found.stream()
                .map(it -> "[" + OwnHistory.text(it.topic()) + ", " + it.partition() + ", " + it.offset()
                    + ", " + OwnHistory.text(it.value()) + "]")
                .collect(Collectors.joining(", ", "[", "]")));
        }
        return found;
    }

    private void relay(List<ConsumerRecord<String, String>> found) throws InterruptedException {
        switch (options.get("guarantee")) {
            case "at most once" -> {
                commitOffsets(found);
                send(found, null);
            }
            case "at least once" -> {
                if (!send(found, null)) {
                    throw new KafkaException("a record was not acknowledged");
                }
                commitOffsets(found);
            }
            default -> exactlyOnce(found);
        }
    }

    private void exactlyOnce(List<ConsumerRecord<String, String>> found) throws InterruptedException {
        int transaction = transactions++;
        String named = ", \"transaction\": " + transaction;
        boolean isEnding = false;
        history.add("transaction begun", named);
        try {
            producer.beginTransaction();
            if (send(found, transaction) && chance.nextDouble() >= Double.parseDouble(options.get("abort_share"))) {
                history.add("offsets commit", offsetsAfter(found) + named);
                producer.sendOffsetsToTransaction(positionsAfter(found), consumer.groupMetadata());
                history.add("transaction ending", named + ", \"ending\": \"commit\"");
                isEnding = true;
                commit();
                history.add("transaction ended", named + ", \"ended\": \"committed\"");
                tell("committed", ", \"records\": " + found.size());
                return;
            }
        } catch (KafkaException failed) {
            String reason = ", \"reason\": " + OwnHistory.text(failed.toString());
            if (isEnding) {
                history.add("transaction ended", named + ", \"ended\": \"unknown\"" + reason);
                throw failed;
            }
            tell("failed", reason);
        }
        history.add("transaction ending", named + ", \"ending\": \"abort\"");
        producer.abortTransaction();
        history.add("transaction ended", named + ", \"ended\": \"aborted\"");
        tell("aborted", ", \"records\": " + found.size());
        goBack(found);
    }

    /** Commits; repeats a commit that timed out. */
    private void commit() {
        for (int i = 1; ; i++) {
            try {
                producer.commitTransaction();
                return;
            } catch (TimeoutException late) {
                if (i == COMMITS_MAX) {
                    throw late;
                }
            }
        }
    }

    private void goBack(List<ConsumerRecord<String, String>> found) {
        Map<TopicPartition, Long> first = new LinkedHashMap<>();
        found.forEach(it -> first.putIfAbsent(new TopicPartition(it.topic(), it.partition()), it.offset()));
        first.keySet().retainAll(consumer.assignment());
        first.forEach((place, offset) -> {
            consumer.seek(place, offset);
            history.add("moved", ", \"move\": \"sought\", \"positions\": [" + position(place, offset) + "]");
        });
    }

    /** Returns whether all records were acknowledged. */
    private boolean send(List<ConsumerRecord<String, String>> found, Integer transaction) throws InterruptedException {
        int first = sends;
        List<ProducerRecord<String, String>> marked = new ArrayList<>();
        for (ConsumerRecord<String, String> record : found) {
            String value = record.value() + "@" + options.get("name") + "/" + (sends + 1);
            marked.add(new ProducerRecord<>(options.get("sink"), record.partition(), null, value));
            history.add("send", ", \"send\": " + sends++ + ", \"topic\": " + OwnHistory.text(options.get("sink"))
                + ", \"partition\": " + record.partition() + ", \"value\": " + OwnHistory.text(value)
                + (transaction == null ? "" : ", \"transaction\": " + transaction));
        }
        List<Future<RecordMetadata>> underWay = new ArrayList<>();
        for (ProducerRecord<String, String> record : marked) {
            underWay.add(producer.send(record));
        }
        producer.flush();
        boolean areAllSent = true;
        for (int i = 0; i < underWay.size(); i++) {
            areAllSent &= isSent(first + i, underWay.get(i));
        }
        return areAllSent;
    }

    private boolean isSent(int send, Future<RecordMetadata> underWay) throws InterruptedException {
        String named = ", \"send\": " + send;
        try {
            RecordMetadata told = underWay.get();
            String offset = told.hasOffset() ? ", \"offset\": " + told.offset() : "";
            history.add("send ended", named + ", \"outcome\": \"ok\", \"partition\": " + told.partition() + offset);
            return true;
        } catch (ExecutionException refused) {
            String reason = OwnHistory.text(refused.getCause().toString());
            history.add("send ended", named + ", \"outcome\": \"unknown\", \"reason\": " + reason);
            return false;
        }
    }

    private void commitOffsets(List<ConsumerRecord<String, String>> found) {
        String named = ", \"commit\": " + commits;
        history.add("offsets commit", offsetsAfter(found));
        consumer.commitSync(positionsAfter(found));
        history.add("offsets commit ended", named + ", \"outcome\": \"ok\"");
        tell("committed", ", \"records\": " + found.size());
        commits++;
    }

    private String offsetsAfter(List<ConsumerRecord<String, String>> found) {
        return ", \"commit\": " + (isTransactional ? commits++ : commits) + ", \"group\": "
            + OwnHistory.text(options.get("group")) + ", \"positions\": " + positionsAfter(found).entrySet().stream()
                .map(it -> position(it.getKey(), it.getValue().offset()))
                .collect(Collectors.joining(", ", "[", "]"));
    }

    private static Map<TopicPartition, OffsetAndMetadata> positionsAfter(List<ConsumerRecord<String, String>> found) {
        Map<TopicPartition, OffsetAndMetadata> positions = new LinkedHashMap<>();
        found.forEach(it -> positions.put(
            new TopicPartition(it.topic(), it.partition()), new OffsetAndMetadata(it.offset() + 1)));
        return positions;
    }

    private static String position(TopicPartition place, Long offset) {
        return "[" + OwnHistory.text(place.topic()) + ", " + place.partition() + ", " + offset + "]";
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        moved("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        moved("revoked", partitions);
    }

    private void moved(String move, Collection<TopicPartition> partitions) {
        history.add("moved", ", \"move\": \"" + move + "\", \"positions\": " + partitions.stream()
            .map(it -> position(it, null))
            .collect(Collectors.joining(", ", "[", "]")));
    }

    private static void tell(String event, String more) {
        System.out.println("{\"at_ns\": " + System.nanoTime() + ", \"event\": \"" + event + "\"" + more + "}");
    }

    /** Writes events for pykbroker.testing.history, each with one write. */
    private static final class OwnHistory {
        private final OutputStream file;
        private final String client;

        OwnHistory(String path, String client) throws IOException {
            this.file = new FileOutputStream(path, true);
            this.client = client;
        }

        void add(String event, String more) {
            String line = "{\"event\": \"" + event + "\", \"client\": " + text(client)
                + ", \"at_ns\": " + System.nanoTime() + more + "}\n";
            try {
                file.write(line.getBytes(StandardCharsets.UTF_8));
            } catch (IOException full) {
                throw new IllegalStateException(full);
            }
        }

        static String text(String value) {
            return "\"" + value.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n")
                .replace("\r", "\\r").replace("\t", "\\t") + "\"";
        }
    }
}
