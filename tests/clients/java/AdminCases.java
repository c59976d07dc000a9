import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What the admin client asks. */
final class AdminCases {
    private final Setting setting;
    private final Admin admin;

    AdminCases(Setting setting) {
        this.setting = setting;
        this.admin = setting.admin;
    }

    Map<String, Object> topics() throws Exception {
        String topic = setting.makeTopic(2);
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("again", Setting.refusal(() -> admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get()));
        TopicDescription described = Setting.get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic);
        saw.put("described", List.of(described.name(), described.partitions().size(), described.isInternal()));
        saw.put("byId", Setting.get(admin.describeTopics(
                org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(described.topicId()))).allTopicIds())
                .get(described.topicId()).name().equals(topic));
        Setting.get(admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all());
        Setting.until(
                () -> Setting.get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size() == 4,
                "the topic has grown");
        Setting.get(admin.deleteTopics(List.of(topic)).all());
        Setting.until(() -> !Setting.get(admin.listTopics().names()).contains(topic), "the topic is gone");
        saw.put("unknown", Setting.refusal(() -> admin.describeTopics(List.of(topic)).allTopicNames().get()));
        return saw;
    }

    Map<String, Object> configuration() throws Exception {
        String topic = setting.makeTopic(1);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp set = new AlterConfigOp(new ConfigEntry("retention.ms", "120000"), AlterConfigOp.OpType.SET);
        Setting.get(admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all());
        Setting.until(() -> "120000".equals(entry(resource, "retention.ms").value()), "the change is described");
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("changed", entry(resource, "retention.ms").isDefault());
        saw.put("policy", entry(resource, "cleanup.policy").value());
        AlterConfigOp bad = new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET);
        saw.put("bad", Setting.refusal(() -> admin.incrementalAlterConfigs(Map.of(resource, List.of(bad))).all().get()));
        AlterConfigOp unset = new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE);
        Setting.get(admin.incrementalAlterConfigs(Map.of(resource, List.of(unset))).all());
        Setting.until(() -> entry(resource, "retention.ms").isDefault(), "it is back to its default");
        Node broker = Setting.get(admin.describeCluster().nodes()).iterator().next();
        ConfigResource self = new ConfigResource(ConfigResource.Type.BROKER, broker.idString());
        saw.put("broker", Setting.get(admin.describeConfigs(List.of(self)).all()).get(self).entries().size() > 0);
        return saw;
    }

    private ConfigEntry entry(ConfigResource resource, String name) throws Exception {
        return Setting.get(admin.describeConfigs(List.of(resource)).all()).get(resource).get(name);
    }

    Map<String, Object> recordsAndOffsets() throws Exception {
        String topic = setting.makeTopic(1);
        TopicPartition here = new TopicPartition(topic, 0);
        setting.send(topic, "0", "1", "2", "3", "4", "5", "6", "7", "8", "9");
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("newest", offset(here, OffsetSpec.maxTimestamp()) >= 0);
        saw.put("low", Setting.get(admin.deleteRecords(Map.of(here, RecordsToDelete.beforeOffset(4))).lowWatermarks().get(here))
                .lowWatermark());
        saw.put("earliest", offset(here, OffsetSpec.earliest()));
        saw.put("latest", offset(here, OffsetSpec.latest()));
        saw.put("sinceAlways", offset(here, OffsetSpec.forTimestamp(0)));
        saw.put("left", Setting.values(setting.read(topic, 1, 6)));
        return saw;
    }

    private long offset(TopicPartition here, OffsetSpec spec) throws Exception {
        ListOffsetsResultInfo found = Setting.get(admin.listOffsets(Map.of(here, spec)).partitionResult(here));
        return found.offset();
    }

    Map<String, Object> groups() throws Exception {
        String topic = setting.makeTopic(2);
        String group = setting.freshName("group");
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        setting.send(topic, "x");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaConsumer<String, String> consumer = setting.consumer(group, "client.id", "somebody")) {
            consumer.subscribe(List.of(topic));
            setting.poll(consumer, 1);
            consumer.commitSync();
            ConsumerGroupDescription stable = describe(group);
            saw.put("stable", stable.groupState().toString());
            saw.put("member", stable.members().iterator().next().clientId());
            saw.put("assigned", stable.members().iterator().next().assignment().topicPartitions().size());
            saw.put("deleteBusy", Setting.refusal(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
            saw.put("subscribed", Setting.refusal(() -> admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get()));
        }
        saw.put("empty", describe(group).groupState().toString());
        saw.put("listed", Setting.get(admin.listGroups().all()).stream().anyMatch(g -> g.groupId().equals(group)));
        Setting.get(admin.alterConsumerGroupOffsets(group, Map.of(second, new OffsetAndMetadata(7))).all());
        saw.put("offsets", offsets(group));
        Setting.get(admin.deleteConsumerGroupOffsets(group, Set.of(second)).all());
        saw.put("fewerOffsets", offsets(group));
        Setting.get(admin.deleteConsumerGroups(List.of(group)).all());
        saw.put("deleteAgain", Setting.refusal(() -> admin.deleteConsumerGroups(List.of(group)).all().get()));
        return saw;
    }

    private ConsumerGroupDescription describe(String group) throws Exception {
        return Setting.get(admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }

    private Map<String, Object> offsets(String group) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        Setting.get(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                .forEach((place, offset) -> found.put("" + place.partition(), offset.offset()));
        return found;
    }

    Map<String, Object> cluster() throws Exception {
        String topic = setting.makeTopic(1);
        setting.send(topic, "some bytes");
        List<Object> addresses = new ArrayList<>();
        List<Integer> brokers = new ArrayList<>();
        for (Node node : Setting.get(admin.describeCluster().nodes())) {
            addresses.add(node.host() + ":" + node.port());
            brokers.add(node.id());
        }
        long bytes = 0;
        for (Map<String, LogDirDescription> directories : Setting.get(admin.describeLogDirs(brokers).allDescriptions()).values()) {
            for (LogDirDescription directory : directories.values()) {
                var replica = directory.replicaInfos().get(new TopicPartition(topic, 0));
                bytes += replica == null ? 0 : replica.size();
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("id", Setting.get(admin.describeCluster().clusterId()));
        saw.put("controller", Setting.get(admin.describeCluster().controller()) != null);
        saw.put("addresses", addresses);
        saw.put("bytes", bytes > 0);
        return saw;
    }
}
