import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.SharePartitionOffsetInfo;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Share groups: records that are acquired, accepted, released, rejected and renewed. */
final class ShareCases {
    private final Setting setting;

    ShareCases(Setting setting) {
        this.setting = setting;
    }

    private KafkaShareConsumer<String, String> member(String group, Object... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", setting.bootstrap);
        properties.put("group.id", group);
        properties.put("share.acknowledgement.mode", "explicit");
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], String.valueOf(settings[i + 1]));
        }
        return new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private String configured(String... pairs) throws Exception {
        String group = setting.freshName("share");
        List<AlterConfigOp> changes = new ArrayList<>();
        for (int i = 0; i < pairs.length; i += 2) {
            changes.add(new AlterConfigOp(new ConfigEntry(pairs[i], pairs[i + 1]), AlterConfigOp.OpType.SET));
        }
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        Setting.get(setting.admin.incrementalAlterConfigs(Map.of(resource, changes)).all());
        return group;
    }

    private String earliest(String... pairs) throws Exception {
        List<String> all = new ArrayList<>(List.of("share.auto.offset.reset", "earliest"));
        all.addAll(List.of(pairs));
        return configured(all.toArray(new String[0]));
    }

    private List<ConsumerRecord<String, String>> poll(KafkaShareConsumer<String, String> member, int wanted) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        long deadline = System.currentTimeMillis() + Setting.WAIT_MS;
        while (got.size() < wanted) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + got.size() + " of " + wanted + " records came");
            }
            member.poll(Duration.ofMillis(300)).forEach(got::add);
        }
        return got;
    }

    private static List<Integer> deliveries(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(record -> (int) record.deliveryCount().orElse((short) -1)).toList();
    }

    Map<String, Object> acceptReleaseReject() throws Exception {
        String topic = setting.makeTopic(1);
        setting.send(topic, "accepted", "released", "rejected");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaShareConsumer<String, String> member = member(earliest())) {
            member.subscribe(List.of(topic));
            List<ConsumerRecord<String, String>> first = poll(member, 3);
            saw.put("first", Setting.values(first));
            saw.put("counts", deliveries(first));
            member.acknowledge(first.get(0), AcknowledgeType.ACCEPT);
            member.acknowledge(first.get(1), AcknowledgeType.RELEASE);
            member.acknowledge(first.get(2), AcknowledgeType.REJECT);
            saw.put("committed", errors(member));
            List<ConsumerRecord<String, String>> again = poll(member, 1);
            saw.put("again", Setting.values(again));
            saw.put("againCounts", deliveries(again));
            again.forEach(record -> member.acknowledge(record, AcknowledgeType.ACCEPT));
            saw.put("committedAgain", errors(member));
            saw.put("left", member.poll(Duration.ofMillis(500)).count());
        }
        return saw;
    }

    private static List<String> errors(KafkaShareConsumer<String, String> member) {
        List<String> found = new ArrayList<>();
        member.commitSync().values().forEach(error -> found.add(
                error.map(one -> one.getClass().getSimpleName()).orElse("none")));
        return found;
    }

    /** Two members of a group share a topic of several partitions; another group gets everything as well. */
    Map<String, Object> membersShareAndGroupsDoNot() throws Exception {
        String topic = setting.makeTopic(3);
        String group = earliest();
        Set<String> expected = new TreeSet<>();
        try (KafkaProducer<String, String> producer = setting.producer()) {
            for (int number = 0; number < 300; number++) {
                producer.send(new ProducerRecord<>(topic, number % 3, null, "m" + number));
                expected.add("m" + number);
            }
        }
        Map<String, Integer> given = new TreeMap<>();
        try (KafkaShareConsumer<String, String> one = member(group, "max.poll.records", 20);
                KafkaShareConsumer<String, String> other = member(group, "max.poll.records", 20)) {
            one.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            long deadline = System.currentTimeMillis() + Setting.WAIT_MS;
            while (given.size() < 300 && System.currentTimeMillis() < deadline) {
                for (KafkaShareConsumer<String, String> member : List.of(one, other)) {
                    member.poll(Duration.ofMillis(100)).forEach(record -> {
                        given.merge(record.value(), 1, Integer::sum);
                        member.acknowledge(record);
                    });
                    member.commitSync();
                }
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("everything", given.keySet().equals(expected));
        saw.put("twice", given.values().stream().filter(count -> count > 1).count());
        try (KafkaShareConsumer<String, String> stranger = member(earliest(), "share.acknowledgement.mode", "implicit")) {
            stranger.subscribe(List.of(topic));
            saw.put("otherGroup", new TreeSet<>(Setting.values(poll(stranger, 300))).equals(expected));
        }
        return saw;
    }

    /** A lock that ends makes a record available to others, and its member's acknowledgement void; renewing keeps it. */
    Map<String, Object> locks() throws Exception {
        String topic = setting.makeTopic(1);
        String group = earliest("share.record.lock.duration.ms", "1000");
        setting.send(topic, "slow");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaShareConsumer<String, String> slow = member(group);
                KafkaShareConsumer<String, String> other = member(group)) {
            slow.subscribe(List.of(topic));
            ConsumerRecord<String, String> record = poll(slow, 1).get(0);
            saw.put("lock", slow.acquisitionLockTimeoutMs().orElse(-1));
            other.subscribe(List.of(topic));
            saw.put("other", deliveries(poll(other, 1)));
            slow.acknowledge(record);
            saw.put("late", errors(slow));
        }
        return saw;
    }

    Map<String, Object> renewed() throws Exception {
        String topic = setting.makeTopic(1);
        String group = earliest("share.record.lock.duration.ms", "1000");
        setting.send(topic, "long");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaShareConsumer<String, String> member = member(group)) {
            member.subscribe(List.of(topic));
            ConsumerRecord<String, String> record = poll(member, 1).get(0);
            for (int turn = 0; turn < 3; turn++) {
                Thread.sleep(500);
                member.acknowledge(record, AcknowledgeType.RENEW);
                member.commitSync();
                member.poll(Duration.ZERO);
            }
            member.acknowledge(record);
            saw.put("accepted", errors(member));
        }
        return saw;
    }

    /** A member that closes without an acknowledgement returns its records, and that counts as a delivery. */
    Map<String, Object> closed() throws Exception {
        String topic = setting.makeTopic(1);
        String group = earliest("share.delivery.count.limit", "2");
        setting.send(topic, "poison");
        List<List<Integer>> counts = new ArrayList<>();
        for (int turn = 0; turn < 2; turn++) {
            try (KafkaShareConsumer<String, String> member = member(group)) {
                member.subscribe(List.of(topic));
                counts.add(deliveries(poll(member, 1)));
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("counts", counts);
        setting.send(topic, "good");
        try (KafkaShareConsumer<String, String> member = member(group)) {
            member.subscribe(List.of(topic));
            saw.put("then", Setting.values(poll(member, 1)));
        }
        return saw;
    }

    Map<String, Object> transactions() throws Exception {
        String topic = setting.makeTopic(1);
        try (KafkaProducer<String, String> producer = setting.producer("transactional.id", setting.freshName("t"))) {
            producer.initTransactions();
            for (String value : List.of("committed", "aborted", "last")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, value));
                if (value.equals("aborted")) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        for (String level : List.of("read_committed", "read_uncommitted")) {
            int wanted = level.equals("read_committed") ? 2 : 3;
            try (KafkaShareConsumer<String, String> member = member(earliest("share.isolation.level", level))) {
                member.subscribe(List.of(topic));
                saw.put(level, Setting.values(poll(member, wanted)));
            }
        }
        return saw;
    }

    Map<String, Object> recordLimit() throws Exception {
        String topic = setting.makeTopic(1);
        try (KafkaProducer<String, String> producer = setting.producer("linger.ms", 200)) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, "m" + number));
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        for (String mode : List.of("record_limit", "batch_optimized")) {
            try (KafkaShareConsumer<String, String> member =
                    member(earliest(), "max.poll.records", 3, "share.acquire.mode", mode)) {
                member.subscribe(List.of(topic));
                saw.put(mode, poll(member, 1).size());
            }
        }
        return saw;
    }

    Map<String, Object> administration() throws Exception {
        String topic = setting.makeTopic(2);
        TopicPartition place = new TopicPartition(topic, 0);
        String group = earliest();
        setting.send(topic, "a", "b", "c");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaShareConsumer<String, String> member = member(group, "client.id", "somebody")) {
            member.subscribe(List.of(topic));
            poll(member, 3).forEach(member::acknowledge);
            member.commitSync();
            ShareGroupDescription described =
                    Setting.get(setting.admin.describeShareGroups(List.of(group)).all()).get(group);
            saw.put("state", described.groupState().toString());
            saw.put("member", described.members().iterator().next().clientId());
            saw.put("assigned", described.members().iterator().next().assignment().topicPartitions().size());
            saw.put("busy", Setting.refusal(() -> setting.admin
                    .alterShareGroupOffsets(group, Map.of(place, 1L)).all().get()));
            saw.put("listed", Setting.get(setting.admin.listGroups(
                            org.apache.kafka.clients.admin.ListGroupsOptions.forShareGroups()).all())
                    .stream().anyMatch(line -> line.groupId().equals(group)));
        }
        SharePartitionOffsetInfo at = offset(group, place);
        saw.put("offset", at.startOffset());
        saw.put("lag", at.lag().orElse(-1L));
        Setting.get(setting.admin.alterShareGroupOffsets(group, Map.of(place, 1L)).all());
        saw.put("moved", offset(group, place).startOffset());
        try (KafkaShareConsumer<String, String> member = member(group, "share.acknowledgement.mode", "implicit")) {
            member.subscribe(List.of(topic));
            saw.put("again", Setting.values(poll(member, 2)));
        }
        Setting.get(setting.admin.deleteShareGroupOffsets(group, Set.of(topic)).all());
        saw.put("unknown", Setting.refusal(() -> setting.admin
                .deleteShareGroupOffsets(group, Set.of(topic)).all().get()));
        Setting.get(setting.admin.deleteShareGroups(List.of(group)).all());
        saw.put("deleted", Setting.refusal(() -> setting.admin.describeShareGroups(List.of(group)).all().get()));
        return saw;
    }

    private SharePartitionOffsetInfo offset(String group, TopicPartition place) throws Exception {
        return Setting.get(setting.admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
                .partitionsToOffsetInfo(group)).get(place);
    }
}
