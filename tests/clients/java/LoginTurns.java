import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * java LoginTurns PROPERTIES TOPIC: for each line of standard input one turn of the same clients, which sends the line and
 * reads it back. Prints a JSON line for each: what was read, or the exception that refused it.
 */
public final class LoginTurns {
    private static final long WAIT_MS = 30_000;

    private LoginTurns() {}

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            settings.load(file);
        }
        TopicPartition place = new TopicPartition(arguments[1], 0);
        Properties sending = with(settings, "max.block.ms", "20000", "delivery.timeout.ms", "20000", "linger.ms", "0");
        sending.put("request.timeout.ms", "10000");
        Properties reading = with(settings, "default.api.timeout.ms", "20000", "auto.offset.reset", "earliest");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer =
                        new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer());
                KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(place));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                Map<String, Object> result = new LinkedHashMap<>();
                try {
                    producer.send(new ProducerRecord<>(arguments[1], 0, null, line)).get();
                    result.put("saw", find(consumer, line));
                } catch (ExecutionException wrapped) {
                    result.put("refused", wrapped.getCause().toString());
                } catch (RuntimeException error) {
                    result.put("refused", error.toString());
                }
                System.out.println(Json.of(result));
            }
        }
        System.exit(0);
    }

    private static Properties with(Properties settings, String... more) {
        Properties all = new Properties();
        all.putAll(settings);
        for (int i = 0; i < more.length; i += 2) {
            all.put(more[i], more[i + 1]);
        }
        return all;
    }

    private static String find(KafkaConsumer<String, String> consumer, String wanted) {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (System.currentTimeMillis() < deadline) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                if (record.value().equals(wanted)) {
                    return record.value();
                }
            }
        }
        throw new IllegalStateException("the record did not come");
    }
}
