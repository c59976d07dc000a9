import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;

/** What an operator asks of topics, brokers and replicas. */
final class OperatorCases {
    private final Setting setting;
    private final Admin admin;

    OperatorCases(Setting setting) {
        this.setting = setting;
        this.admin = setting.admin;
    }

    private String make(Map<String, String> configs) throws Exception {
        String name = setting.freshName("operated");
        Setting.get(admin.createTopics(List.of(new NewTopic(name, 1, (short) -1).configs(configs))).all());
        Setting.until(() -> Setting.get(admin.listTopics().names()).contains(name), name + " is listed");
        return name;
    }

    private Config configs(ConfigResource.Type type, String name) throws Exception {
        ConfigResource resource = new ConfigResource(type, name);
        return Setting.get(admin.describeConfigs(List.of(resource)).all()).get(resource);
    }

    /** Kafka's topic configurations, each set to something else than its default. */
    Map<String, Object> topicConfigurations() throws Exception {
        Map<String, String> wanted = new TreeMap<>();
        wanted.put("cleanup.policy", "");
        wanted.put("compression.gzip.level", "5");
        wanted.put("compression.lz4.level", "5");
        wanted.put("compression.zstd.level", "5");
        wanted.put("file.delete.delay.ms", "1000");
        wanted.put("flush.messages", "5");
        wanted.put("flush.ms", "5");
        wanted.put("follower.replication.throttled.replicas", "*");
        wanted.put("leader.replication.throttled.replicas", "0:1");
        wanted.put("index.interval.bytes", "5");
        wanted.put("local.retention.bytes", "-2");
        wanted.put("local.retention.ms", "-2");
        wanted.put("preallocate", "true");
        wanted.put("remote.log.copy.disable", "false");
        wanted.put("remote.storage.enable", "false");
        wanted.put("segment.index.bytes", "5000");
        wanted.put("segment.jitter.ms", "5");
        wanted.put("unclean.leader.election.enable", "true");
        Config shown = configs(ConfigResource.Type.TOPIC, make(wanted));
        Map<String, Object> different = new TreeMap<>();
        wanted.forEach((name, value) -> {
            if (!shown.get(name).value().equals(value)) {
                different.put(name, shown.get(name).value());
            }
        });
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("different", different);
        saw.put("synonyms", shown.get("flush.ms").synonyms().size());
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, make(Map.of()));
        saw.put("askedSynonyms", Setting.get(admin.describeConfigs(
                List.of(topic), new DescribeConfigsOptions().includeSynonyms(true)).all()).get(topic).get("flush.ms").synonyms().size());
        saw.put("tiered", Setting.refusal(() -> make(Map.of("remote.storage.enable", "true"))));
        return saw;
    }

    Map<String, Object> brokerConfigurations() throws Exception {
        String broker = Setting.get(admin.describeCluster().controller()).idString();
        Config shown = configs(ConfigResource.Type.BROKER, broker);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, broker);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry("num.partitions", "5"), AlterConfigOp.OpType.SET);
        AlterConfigOp idle = new AlterConfigOp(new ConfigEntry("max.connections", "5000"), AlterConfigOp.OpType.SET);
        AlterConfigOp back = new AlterConfigOp(new ConfigEntry("max.connections", ""), AlterConfigOp.OpType.DELETE);
        ConfigResource loggers = new ConfigResource(ConfigResource.Type.BROKER_LOGGER, broker);
        AlterConfigOp level = new AlterConfigOp(new ConfigEntry("longhall.kafka", "WARN"), AlterConfigOp.OpType.SET);
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("listeners", shown.get("advertised.listeners").value());
        saw.put("static", Setting.refusal(() -> admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get()));
        Setting.get(admin.incrementalAlterConfigs(Map.of(resource, List.of(idle))).all());
        saw.put("dynamic", configs(ConfigResource.Type.BROKER, broker).get("max.connections").source().name());
        Setting.get(admin.incrementalAlterConfigs(Map.of(resource, List.of(back))).all());
        saw.put("again", configs(ConfigResource.Type.BROKER, broker).get("max.connections").source().name());
        Setting.get(admin.incrementalAlterConfigs(Map.of(loggers, List.of(level))).all());
        saw.put("level", configs(ConfigResource.Type.BROKER_LOGGER, broker).get("longhall.kafka").value());
        return saw;
    }

    Map<String, Object> defaultsOfBrokers() throws Exception {
        ConfigResource everywhere = new ConfigResource(ConfigResource.Type.BROKER, "");
        String name = "log.segment.bytes";
        ConfigEntry value = new ConfigEntry(name, "4000000");
        ConfigResource plain = new ConfigResource(ConfigResource.Type.TOPIC, make(Map.of()));
        String own = make(Map.of("segment.bytes", "5000000"));
        Map<String, Object> saw = new LinkedHashMap<>();
        Setting.get(admin.incrementalAlterConfigs(
                Map.of(everywhere, List.of(new AlterConfigOp(value, AlterConfigOp.OpType.SET)))).all());
        saw.put("everywhere", said(configs(ConfigResource.Type.BROKER, "").get(name)));
        ConfigEntry shown = Setting.get(admin.describeConfigs(
                List.of(plain), new DescribeConfigsOptions().includeSynonyms(true)).all()).get(plain).get("segment.bytes");
        saw.put("topic", said(shown));
        saw.put("synonyms", shown.synonyms().stream().map(one -> one.name() + " " + one.source()).toList());
        saw.put("own", said(configs(ConfigResource.Type.TOPIC, own).get("segment.bytes")));
        Setting.get(admin.incrementalAlterConfigs(
                Map.of(everywhere, List.of(new AlterConfigOp(value, AlterConfigOp.OpType.DELETE)))).all());
        saw.put("after", configs(ConfigResource.Type.TOPIC, plain.name()).get("segment.bytes").source().name());
        return saw;
    }

    private static String said(ConfigEntry entry) {
        return entry.source() + " " + entry.value();
    }

    Map<String, Object> resources() throws Exception {
        String topic = make(Map.of());
        var all = Setting.get(admin.listConfigResources().all());
        var brokers = Setting.get(admin.listConfigResources(
                Set.of(ConfigResource.Type.BROKER), new ListConfigResourcesOptions()).all());
        return Map.of(
                "topic", all.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)),
                "brokers", brokers.size() == Setting.get(admin.describeCluster().nodes()).size());
    }

    Map<String, Object> quorum() throws Exception {
        QuorumInfo info = Setting.get(admin.describeMetadataQuorum().quorumInfo());
        return Map.of(
                "leader", info.leaderId() == Setting.get(admin.describeCluster().controller()).id(),
                "leads", info.voters().stream().anyMatch(voter -> voter.replicaId() == info.leaderId()),
                "committed", info.highWatermark() > 0,
                "nodes", info.nodes().size() > 0);
    }

    Map<String, Object> elections() throws Exception {
        Set<TopicPartition> place = Set.of(new TopicPartition(make(Map.of()), 0));
        Map<String, Object> saw = new LinkedHashMap<>();
        for (ElectionType type : ElectionType.values()) {
            saw.put(type.name(), Setting.refusal(() -> admin.electLeaders(type, place).all().get()));
        }
        return saw;
    }

    Map<String, Object> directories() throws Exception {
        String topic = make(Map.of());
        int broker = Setting.get(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().get(0).leader().id();
        String here = Setting.get(admin.describeLogDirs(List.of(broker)).allDescriptions()).get(broker).keySet().iterator().next();
        TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, broker);
        return Map.of(
                "here", Setting.refusal(() -> admin.alterReplicaLogDirs(Map.of(replica, here)).all().get()),
                "elsewhere", Setting.refusal(() -> admin.alterReplicaLogDirs(Map.of(replica, "/elsewhere")).all().get()));
    }

    Map<String, Object> operations() throws Exception {
        String topic = make(Map.of());
        int ofTopic = Setting.get(admin.describeTopics(
                        List.of(topic), new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames())
                .get(topic).authorizedOperations().size();
        int ofCluster = Setting.get(admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true)).authorizedOperations()).size();
        return Map.of("topic", ofTopic, "cluster", ofCluster);
    }

    /** One batch of three messages, of which a compacted topic refuses the second. */
    Map<String, Object> recordErrors() throws Exception {
        String topic = make(Map.of("cleanup.policy", "compact"));
        List<String> saw = new ArrayList<>();
        try (KafkaProducer<String, String> producer = setting.producer("linger.ms", 500, "enable.idempotence", false)) {
            List<Future<?>> sent = new ArrayList<>();
            for (String key : new String[] {"a", null, "b"}) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, key, "value")));
            }
            producer.flush();
            for (Future<?> one : sent) {
                saw.add(Setting.refusal(one::get));
            }
        }
        return Map.of("refused", saw);
    }

    Map<String, Object> minimumInSync() throws Exception {
        String topic = make(Map.of("min.insync.replicas", "9"));
        Map<String, Object> saw = new LinkedHashMap<>();
        for (String acks : List.of("all", "1")) {
            try (KafkaProducer<String, String> producer = setting.producer(
                    "acks", acks, "enable.idempotence", false, "retries", 0, "linger.ms", 0)) {
                saw.put(acks, Setting.refusal(() -> producer.send(new ProducerRecord<>(topic, 0, "k", "v")).get()));
            }
        }
        return saw;
    }

    Map<String, Object> newestBehindATransaction() throws Exception {
        String topic = make(Map.of());
        TopicPartition place = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = setting.producer("transactional.id", setting.freshName("newest"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_005L, null, "newer"));
            producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L, null, "older"));
            producer.commitTransaction();
        }
        var found = Setting.get(admin.listOffsets(Map.of(place, OffsetSpec.maxTimestamp())).partitionResult(place));
        return Map.of("offset", found.offset(), "timestamp", found.timestamp());
    }

    Map<String, Object> assignments() {
        Map<String, Object> saw = new LinkedHashMap<>();
        NewTopic factor = new NewTopic(setting.freshName("factor"), 1, (short) 7);
        saw.put("factor", Setting.refusal(() -> admin.createTopics(List.of(factor)).all().get()));
        NewTopic assigned = new NewTopic(setting.freshName("assigned"), Map.of(0, List.of(99)));
        saw.put("assigned", Setting.refusal(() -> admin.createTopics(List.of(assigned)).all().get()));
        return saw;
    }
}
