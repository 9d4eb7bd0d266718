import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Group members, each in its own thread.
 *
 * A line on standard input is "start NAME TOPIC KEY=VALUE ..." with the settings of a consumer, or
 * "stop NAME". Each line on standard output is one event as JSON, with the time of the machine's
 * monotonic clock. At the end of standard input all members leave.
 */
public final class GroupMembers {
    private static final Map<String, GroupMember> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] unused) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Properties settings = new Properties();
                for (int i = 3; i < words.length; i++) {
                    String[] pair = words[i].split("=", 2);
                    settings.put(pair[0], pair[1]);
                }
                GroupMember member = new GroupMember(words[1], words[2], settings);
                MEMBERS.put(words[1], member);
                member.start();
            } else {
                MEMBERS.get(words[1]).stopping = true;
            }
        }
        for (GroupMember member : MEMBERS.values()) {
            member.stopping = true;
        }
        for (GroupMember member : MEMBERS.values()) {
            member.join();
        }
    }

    private static final class GroupMember extends Thread implements ConsumerRebalanceListener {
        volatile boolean stopping = false;
        private final String topic;
        private final Properties settings;

        GroupMember(String name, String topic, Properties settings) {
            super(name);
            this.topic = topic;
            this.settings = settings;
        }

        @Override
        public void run() {
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic), this);
                tell("started", "");
                while (!stopping) {
                    read(consumer);
                }
                tell("leaving", "");
            }
            tell("ended", "");
        }

        private void read(KafkaConsumer<byte[], byte[]> consumer) {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(Duration.ofMillis(100));
            if (found.isEmpty()) {
                return;
            }
            for (TopicPartition place : found.partitions()) {
                List<ConsumerRecord<byte[], byte[]>> records = found.records(place);
                tell("read", ", \"topic\": \"" + place.topic() + "\", \"partition\": " + place.partition()
                    + ", \"first\": " + records.get(0).offset()
                    + ", \"last\": " + records.get(records.size() - 1).offset());
            }
            try {
                consumer.commitSync();
                tell("committed", "");
            } catch (KafkaException refused) {
                tell("not committed", ", \"reason\": \"" + refused.getClass().getSimpleName() + "\"");
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tellPartitions("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tellPartitions("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tellPartitions("lost", partitions);
        }

        private void tellPartitions(String event, Collection<TopicPartition> partitions) {
            tell(event, partitions.stream()
                .map(it -> "[\"" + it.topic() + "\", " + it.partition() + "]")
                .collect(Collectors.joining(", ", ", \"partitions\": [", "]")));
        }

        private void tell(String event, String more) {
            System.out.println("{\"member\": \"" + getName() + "\", \"at_ns\": " + System.nanoTime()
                + ", \"event\": \"" + event + "\"" + more + "}");
        }
    }
}
