import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What every case starts from: clients, fresh names, and short words for sending, reading and waiting. */
final class Setting {
    static final long WAIT_MS = 30_000;

    final String bootstrap;
    final Admin admin;
    private final String run;
    private final AtomicInteger count = new AtomicInteger();

    Setting(String bootstrap, String run) {
        this.bootstrap = bootstrap;
        this.run = run;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    String freshName(String word) {
        return "java-" + word + "-" + run + "-" + count.incrementAndGet();
    }

    String makeTopic(int partitions) throws Exception {
        String name = freshName("topic");
        // Some records are stamped long ago, and must not be too old to keep.
        NewTopic wanted = new NewTopic(name, partitions, (short) 1).configs(Map.of("retention.ms", "-1"));
        get(admin.createTopics(List.of(wanted)).all());
        until(() -> get(admin.listTopics().names()).contains(name), name + " is listed");
        return name;
    }

    KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(properties(settings), new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String group, Object... settings) {
        Properties properties = properties(settings);
        properties.putIfAbsent("group.id", group);
        properties.putIfAbsent("auto.offset.reset", "earliest");
        properties.putIfAbsent("enable.auto.commit", "false");
        if (!"consumer".equals(properties.get("group.protocol"))) { // There the server has the times.
            properties.putIfAbsent("session.timeout.ms", "6000");
            properties.putIfAbsent("heartbeat.interval.ms", "300");
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    private Properties properties(Object... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int i = 0; i < settings.length; i += 2) {
            properties.put(settings[i], String.valueOf(settings[i + 1]));
        }
        return properties;
    }

    void send(String topic, String... values) throws Exception {
        try (KafkaProducer<String, String> producer = producer()) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
            }
        }
    }

    /** Reads partitions from their beginning until so many records came. */
    List<ConsumerRecord<String, String>> read(String topic, int partitions, int wanted, Object... settings) {
        try (KafkaConsumer<String, String> consumer = consumer("reader-without-commits", settings)) {
            List<TopicPartition> places = new ArrayList<>();
            for (int number = 0; number < partitions; number++) {
                places.add(new TopicPartition(topic, number));
            }
            consumer.assign(places);
            consumer.seekToBeginning(places);
            return poll(consumer, wanted);
        }
    }

    List<ConsumerRecord<String, String>> poll(KafkaConsumer<String, String> consumer, int wanted) {
        List<ConsumerRecord<String, String>> got = new ArrayList<>();
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (got.size() < wanted) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + got.size() + " of " + wanted + " records came");
            }
            consumer.poll(Duration.ofMillis(300)).forEach(got::add);
        }
        return got;
    }

    static List<String> values(Collection<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    static <T> T get(KafkaFuture<T> future) throws Exception {
        return future.get(WAIT_MS, TimeUnit.MILLISECONDS);
    }

    /** The name of the exception that a call ends with, or "nothing". */
    static String refusal(Callable<?> call) {
        try {
            call.call();
            return "nothing";
        } catch (ExecutionException wrapped) {
            return wrapped.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            return error.getClass().getSimpleName();
        }
    }

    static void until(Callable<Boolean> holds, String what) throws Exception {
        long deadline = System.currentTimeMillis() + WAIT_MS;
        while (!holds.call()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("not within " + WAIT_MS + " ms: " + what);
            }
            Thread.sleep(20);
        }
    }
}
