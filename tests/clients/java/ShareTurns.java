import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * java ShareTurns BOOTSTRAP GROUP QUEUE: accepts messages of a queue, and releases the poisoned ones, until one says that it is
 * over. Prints each message with its delivery count when it has been acknowledged.
 */
public final class ShareTurns {
    private ShareTurns() {}

    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("group.id", arguments[1]);
        properties.put("share.acknowledgement.mode", "explicit");
        properties.put("max.poll.records", "3");
        properties.put("share.acquire.mode", "record_limit");
        boolean[] over = {false};
        try (KafkaShareConsumer<String, String> member =
                new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            member.subscribe(List.of(arguments[2]));
            while (!over[0]) {
                StringBuilder lines = new StringBuilder();
                member.poll(Duration.ofMillis(200)).forEach(record -> {
                    over[0] |= record.value().equals("over");
                    boolean poisoned = record.value().startsWith("poison");
                    member.acknowledge(record, poisoned ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    lines.append(record.value()).append(' ').append(record.deliveryCount().orElse((short) -1)).append('\n');
                });
                member.commitSync().values().forEach(error -> error.ifPresent(one -> {
                    throw one;
                }));
                System.out.print(lines);
                System.out.flush();
            }
        }
        System.exit(0);
    }
}
