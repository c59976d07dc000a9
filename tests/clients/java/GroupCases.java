import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** Groups whose members come, leave and die. */
final class GroupCases {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
    private static final Object[] CONSUMER_PROTOCOL = {"group.protocol", "consumer"};
    private final Setting setting;

    GroupCases(Setting setting) {
        this.setting = setting;
    }

    /** A member in a thread of its own that polls until it is told how to end. */
    private final class Member {
        volatile Set<Integer> owned = Set.of();
        volatile String failed;
        private volatile boolean leave;
        private volatile boolean die;
        private final Thread thread;

        Member(String group, String topic, Object... settings) {
            thread = new Thread(() -> run(group, topic, settings));
            thread.setDaemon(true);
            thread.start();
        }

        private void run(String group, String topic, Object... settings) {
            KafkaConsumer<String, String> consumer = setting.consumer(group, settings);
            try {
                consumer.subscribe(List.of(topic));
                while (!leave && !die) {
                    consumer.poll(Duration.ofMillis(100));
                    Set<Integer> now = new TreeSet<>();
                    for (TopicPartition place : consumer.assignment()) {
                        now.add(place.partition());
                    }
                    owned = now;
                }
            } catch (Exception error) {
                failed = error.getClass().getSimpleName();
            }
            if (!die) {
                consumer.close();
            }
        }

        void leave() throws Exception {
            leave = true;
            thread.join(Setting.WAIT_MS);
        }
    }

    private static void untilOwned(List<Member> members, Integer... counts) throws Exception {
        Setting.until(
                () -> {
                    Set<Integer> all = new TreeSet<>();
                    members.forEach(member -> all.addAll(member.owned));
                    return members.stream().map(m -> m.owned.size()).toList().equals(List.of(counts))
                            && all.size() == List.of(counts).stream().mapToInt(Integer::intValue).sum();
                },
                "members own " + List.of(counts));
    }

    private Map<String, Object> comeAndLeave(String assignor) throws Exception {
        return comeAndLeave("partition.assignment.strategy", PACKAGE + assignor);
    }

    private Map<String, Object> comeAndLeave(Object... settings) throws Exception {
        String topic = setting.makeTopic(4);
        String group = setting.freshName("group");
        Member first = new Member(group, topic, settings);
        untilOwned(List.of(first), 4);
        Member second = new Member(group, topic, settings);
        untilOwned(List.of(first, second), 2, 2);
        second.leave();
        untilOwned(List.of(first), 4);
        first.leave();
        return Map.of("owned", "all");
    }

    Map<String, Object> range() throws Exception {
        return comeAndLeave("RangeAssignor");
    }

    Map<String, Object> roundRobin() throws Exception {
        return comeAndLeave("RoundRobinAssignor");
    }

    Map<String, Object> sticky() throws Exception {
        return comeAndLeave("StickyAssignor");
    }

    Map<String, Object> cooperativeSticky() throws Exception {
        return comeAndLeave("CooperativeStickyAssignor");
    }

    Map<String, Object> uniformByServer() throws Exception {
        return comeAndLeave(CONSUMER_PROTOCOL);
    }

    Map<String, Object> rangeByServer() throws Exception {
        return comeAndLeave("group.protocol", "consumer", "group.remote.assignor", "range");
    }

    /** A member that stops polling is out after its poll interval, though its heartbeats go on until then. */
    Map<String, Object> stalls() throws Exception {
        return stall("classic");
    }

    Map<String, Object> stallsByServer() throws Exception {
        return stall("consumer");
    }

    private Map<String, Object> stall(String protocol) throws Exception {
        String topic = setting.makeTopic(2);
        String group = setting.freshName("group");
        Member stalled = new Member(group, topic, "max.poll.interval.ms", 2000, "group.protocol", protocol);
        untilOwned(List.of(stalled), 2);
        Member other = new Member(group, topic, "group.protocol", protocol);
        untilOwned(List.of(stalled, other), 1, 1);
        stalled.die = true;
        untilOwned(List.of(other), 2);
        other.leave();
        return Map.of("owned", "all");
    }

    Map<String, Object> staticMembers() throws Exception {
        String topic = setting.makeTopic(2);
        String group = setting.freshName("group");
        Member one = new Member(group, topic, "group.instance.id", "one");
        Member two = new Member(group, topic, "group.instance.id", "two");
        untilOwned(List.of(one, two), 1, 1);
        Set<Integer> before = two.owned;
        two.leave();
        Member again = new Member(group, topic, "group.instance.id", "two");
        untilOwned(List.of(one, again), 1, 1);
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("same", again.owned.equals(before));
        Member usurper = new Member(group, topic, "group.instance.id", "two");
        Setting.until(() -> again.failed != null, "the older member is fenced");
        saw.put("fenced", again.failed);
        usurper.leave();
        one.leave();
        return saw;
    }

    /** With the consumer protocol the newer of two members with one static name is refused. */
    Map<String, Object> staticMembersByServer() throws Exception {
        String topic = setting.makeTopic(2);
        String group = setting.freshName("group");
        Member one = new Member(group, topic, "group.instance.id", "one", "group.protocol", "consumer");
        Member two = new Member(group, topic, "group.instance.id", "two", "group.protocol", "consumer");
        untilOwned(List.of(one, two), 1, 1);
        Set<Integer> before = two.owned;
        two.leave();
        Member again = new Member(group, topic, "group.instance.id", "two", "group.protocol", "consumer");
        untilOwned(List.of(one, again), 1, 1);
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("same", again.owned.equals(before));
        Member usurper = new Member(group, topic, "group.instance.id", "two", "group.protocol", "consumer");
        Setting.until(() -> usurper.failed != null, "the newer member is refused");
        saw.put("refused", usurper.failed);
        again.leave();
        one.leave();
        return saw;
    }

    /** The server resolves an expression in RE2's syntax, also to topics that are made later. */
    Map<String, Object> expression() throws Exception {
        String group = setting.freshName("group");
        String topic = setting.makeTopic(2);
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaConsumer<String, String> consumer = setting.consumer(group, CONSUMER_PROTOCOL)) {
            consumer.subscribe(new SubscriptionPattern("(?i)" + topic.toUpperCase() + "(-later)?"));
            Setting.until(() -> {
                consumer.poll(Duration.ofMillis(50));
                return consumer.assignment().size() == 2;
            }, "the topic is assigned");
            Setting.get(setting.admin.createTopics(List.of(new NewTopic(topic + "-later", 3, (short) 1))).all());
            Setting.until(() -> {
                consumer.poll(Duration.ofMillis(50));
                return consumer.assignment().size() == 5;
            }, "the later topic is assigned");
            saw.put("assigned", consumer.assignment().size());
        }
        try (KafkaConsumer<String, String> consumer = setting.consumer(setting.freshName("group"), CONSUMER_PROTOCOL)) {
            consumer.subscribe(new SubscriptionPattern("(unbalanced"));
            saw.put("invalid", Setting.refusal(() -> {
                for (int round = 0; round < 100; round++) {
                    consumer.poll(Duration.ofMillis(100));
                }
                return null;
            }));
        }
        return saw;
    }

    /** The members of a group change from the classic protocol to the other one by one, and back. */
    Map<String, Object> changesProtocol() throws Exception {
        String topic = setting.makeTopic(4);
        String group = setting.freshName("group");
        Object[] classic = {"partition.assignment.strategy", PACKAGE + "CooperativeStickyAssignor"};
        Map<String, Object> saw = new LinkedHashMap<>();
        for (boolean upgrade : new boolean[] {true, false}) {
            Member old = new Member(group, topic, upgrade ? classic : CONSUMER_PROTOCOL);
            untilOwned(List.of(old), 4);
            Member next = new Member(group, topic, upgrade ? CONSUMER_PROTOCOL : classic);
            untilOwned(List.of(old, next), 2, 2);
            GroupType mixed = describe(group).type();
            old.leave();
            untilOwned(List.of(next), 4);
            saw.put(upgrade ? "upgrade" : "downgrade", List.of(mixed.toString(), describe(group).type().toString()));
            next.leave();
        }
        return saw;
    }

    /** The settings of a group reach its members, and those that are not possible are refused. */
    Map<String, Object> settings() throws Exception {
        String group = setting.freshName("group");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("default", interval(resource));
        alter(resource, "consumer.heartbeat.interval.ms", "1234");
        saw.put("given", interval(resource));
        saw.put("refused", Setting.refusal(() -> {
            alter(resource, "consumer.heartbeat.interval.ms", "9999999");
            return null;
        }));
        saw.put("unknown", Setting.refusal(() -> {
            alter(resource, "consumer.nothing", "1");
            return null;
        }));
        saw.put("kept", interval(resource));
        return saw;
    }

    private void alter(ConfigResource resource, String name, String value) throws Exception {
        AlterConfigOp operation = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        Setting.get(setting.admin.incrementalAlterConfigs(Map.of(resource, List.of(operation))).all());
    }

    private String interval(ConfigResource resource) throws Exception {
        return Setting.get(setting.admin.describeConfigs(List.of(resource)).all())
                .get(resource)
                .get("consumer.heartbeat.interval.ms")
                .value();
    }

    private ConsumerGroupDescription describe(String group) throws Exception {
        return Setting.get(setting.admin.describeConsumerGroups(List.of(group)).all()).get(group);
    }
}
