import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;

/** Commands to admin clients. */
final class Admins {
    private Admins() {}

    static AdminClient open(JsonNode command) {
        Map<String, Object> settings = Lines.settings(command, "request_timeout_ms", "request.timeout.ms");
        settings.put("default.api.timeout.ms", "15000");
        return AdminClient.create(settings);
    }

    static ObjectNode ask(AdminClient admin, String command, JsonNode options) throws Exception {
        ObjectNode answer = Lines.JSON.createObjectNode();
        switch (command) {
            case "create_topics" -> createTopics(admin, options);
            case "delete_topics" -> admin.deleteTopics(Lines.strings(options.get("topics"))).all().get();
            case "list_topics" -> admin.listTopics().names().get().forEach(answer.putArray("topics")::add);
            case "describe_topics" -> describeTopics(admin, options, answer.putArray("topics"));
            case "create_partitions" -> admin.createPartitions(Map.of(options.get("topic").asText(),
                NewPartitions.increaseTo(options.get("total").asInt()))).all().get();
            case "describe_configs" -> describeConfigs(admin, options, answer.putObject("configs"));
            case "delete_records" -> answer.put("low_watermark", admin.deleteRecords(Map.of(Lines.place(options),
                RecordsToDelete.beforeOffset(options.get("before").asLong())))
                .lowWatermarks().get(Lines.place(options)).get().lowWatermark());
            case "describe_cluster" -> describeCluster(admin, answer);
            case "list_groups" -> listGroups(admin, answer.putArray("groups"));
            case "describe_group" -> describeGroup(admin, options, answer);
            case "group_offsets" -> admin.listConsumerGroupOffsets(options.get("group").asText())
                .partitionsToOffsetAndMetadata().get()
                .forEach((place, offset) -> answer.withArray("offsets").add(Lines.told(place, offset)));
            case "delete_group" -> admin.deleteConsumerGroups(List.of(options.get("group").asText())).all().get();
            case "replace_configs" -> Replacing.configs(admin, resource(options), options);
            default -> Versions.ask(admin, command, options, answer);
        }
        return answer;
    }

    private static void createTopics(AdminClient admin, JsonNode options) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (JsonNode it : options.get("topics")) {
            topics.add(new NewTopic(it.get("name").asText(), it.get("partitions").asInt(),
                (short) it.get("replicas").asInt()).configs(Lines.pairs(it.get("configs"))));
        }
        boolean validateOnly = options.path("validate_only").asBoolean();
        admin.createTopics(topics, new CreateTopicsOptions().validateOnly(validateOnly)).all().get();
    }

    private static void describeTopics(AdminClient admin, JsonNode options, ArrayNode topics) throws Exception {
        List<String> names = Lines.strings(options.get("topics"));
        Map<String, TopicDescription> found = Versions.described(admin.describeTopics(names)).get();
        for (TopicDescription topic : found.values()) {
            ArrayNode partitions = topics.addObject().put("name", topic.name()).putArray("partitions");
            for (TopicPartitionInfo it : topic.partitions()) {
                ObjectNode told = partitions.addObject().put("partition", it.partition());
                told.put("leader", it.leader() == null ? -1 : it.leader().id());
                it.replicas().forEach(node -> told.withArray("replicas").add(node.id()));
                it.isr().forEach(node -> told.withArray("in_sync").add(node.id()));
            }
        }
    }

    static ConfigResource resource(JsonNode options) {
        String kind = options.get("kind").asText();
        ConfigResource.Type type = kind.equals("topic") ? ConfigResource.Type.TOPIC : ConfigResource.Type.BROKER;
        return new ConfigResource(type, options.get("name").asText());
    }

    private static void describeConfigs(AdminClient admin, JsonNode options, ObjectNode configs) throws Exception {
        ConfigResource resource = resource(options);
        for (ConfigEntry it : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            configs.putObject(it.name()).put("value", it.value()).put("is_default", it.isDefault());
        }
    }

    private static void describeCluster(AdminClient admin, ObjectNode answer) throws Exception {
        DescribeClusterResult found = admin.describeCluster();
        answer.put("cluster_id", found.clusterId().get()).put("controller", found.controller().get().id());
        for (Node it : found.nodes().get()) {
            answer.withArray("brokers").addObject().put("id", it.id()).put("host", it.host()).put("port", it.port());
        }
    }

    private static void listGroups(AdminClient admin, ArrayNode groups) throws Exception {
        for (ConsumerGroupListing it : admin.listConsumerGroups().all().get()) {
            groups.add(it.groupId());
        }
    }

    private static void describeGroup(AdminClient admin, JsonNode options, ObjectNode answer) throws Exception {
        String group = options.get("group").asText();
        ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        answer.put("state", found.state().toString());
        ArrayNode members = answer.putArray("members");
        for (MemberDescription it : found.members()) {
            members.addObject().put("client_id", it.clientId())
                .put("instance_id", Versions.instanceId(it))
                .set("assignment", Lines.told(it.assignment().topicPartitions()));
        }
    }
}
