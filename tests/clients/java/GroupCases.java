import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/** Groups whose members come, leave and die. */
final class GroupCases {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";
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
        String topic = setting.makeTopic(4);
        String group = setting.freshName("group");
        Object[] settings = {"partition.assignment.strategy", PACKAGE + assignor};
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

    /** A member that stops polling is out after its poll interval, though its heartbeats go on until then. */
    Map<String, Object> stalls() throws Exception {
        String topic = setting.makeTopic(2);
        String group = setting.freshName("group");
        Member stalled = new Member(group, topic, "max.poll.interval.ms", 2000);
        untilOwned(List.of(stalled), 2);
        Member other = new Member(group, topic);
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
}
