import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** Records and offsets. */
final class RecordCases {
    private final Setting setting;

    RecordCases(Setting setting) {
        this.setting = setting;
    }

    Map<String, Object> roundTrip() throws Exception {
        String topic = setting.makeTopic(1);
        try (KafkaProducer<String, String> producer = setting.producer()) {
            ProducerRecord<String, String> full = new ProducerRecord<>(topic, 0, 1_700_000_000_123L, "kéy", "välue");
            full.headers().add("trace", "abc".getBytes()).add("none", null).add("trace", "again".getBytes());
            producer.send(full).get();
            producer.send(new ProducerRecord<>(topic, 0, "tombstone", null)).get();
        }
        List<ConsumerRecord<String, String>> got = setting.read(topic, 1, 2);
        List<String> headers = new ArrayList<>();
        got.get(0).headers().forEach(h -> headers.add(h.key() + "=" + (h.value() == null ? null : new String(h.value()))));
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("key", got.get(0).key());
        saw.put("value", got.get(0).value());
        saw.put("timestamp", got.get(0).timestamp());
        saw.put("headers", headers);
        saw.put("tombstone", got.get(1).value());
        saw.put("offsets", got.stream().map(ConsumerRecord::offset).toList());
        return saw;
    }

    Map<String, Object> compressions() throws Exception {
        String topic = setting.makeTopic(1);
        List<String> sent = new ArrayList<>();
        for (String name : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<String, String> producer = setting.producer("compression.type", name, "linger.ms", 20)) {
                for (int number = 0; number < 100; number++) {
                    String value = name + "-" + number + " " + "longhall ".repeat(50);
                    sent.add(value);
                    producer.send(new ProducerRecord<>(topic, value));
                }
            }
        }
        return Map.of("equal", Setting.values(setting.read(topic, 1, 500)).equals(sent));
    }

    Map<String, Object> sizes() throws Exception {
        String topic = setting.makeTopic(1);
        String refused;
        try (KafkaProducer<String, String> producer = setting.producer("max.request.size", 8 << 20)) {
            producer.send(new ProducerRecord<>(topic, "x".repeat(900 << 10))).get();
            refused = Setting.refusal(() -> producer.send(new ProducerRecord<>(topic, "x".repeat(2 << 20))).get());
            producer.send(new ProducerRecord<>(topic, "small")).get();
        }
        List<ConsumerRecord<String, String>> got =
                setting.read(topic, 1, 2, "max.partition.fetch.bytes", 1000, "fetch.max.bytes", 1000);
        return Map.of("refused", refused, "lengths", got.stream().map(r -> r.value().length()).toList());
    }

    Map<String, Object> keyHash() throws Exception {
        String topic = setting.makeTopic(3);
        Map<String, Object> places = new TreeMap<>();
        try (KafkaProducer<String, String> producer = setting.producer()) {
            Map<String, Future<RecordMetadata>> sent = new LinkedHashMap<>();
            for (int number = 0; number < 60; number++) {
                sent.put("key-" + number, producer.send(new ProducerRecord<>(topic, "key-" + number, "x")));
            }
            for (Map.Entry<String, Future<RecordMetadata>> entry : sent.entrySet()) {
                places.put(entry.getKey(), entry.getValue().get().partition());
            }
        }
        return Map.of("places", places);
    }

    Map<String, Object> offsets() throws Exception {
        String topic = setting.makeTopic(1);
        TopicPartition here = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = setting.producer()) {
            for (int number = 0; number < 10; number++) {
                producer.send(new ProducerRecord<>(topic, 0, 1_700_000_000_000L + number * 1000, null, "" + number)).get();
            }
        }
        String group = setting.freshName("group");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaConsumer<String, String> consumer = setting.consumer(group)) {
            saw.put("beginning", consumer.beginningOffsets(List.of(here)).get(here));
            saw.put("end", consumer.endOffsets(List.of(here)).get(here));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(here, 1_700_000_003_500L)).get(here);
            saw.put("byTime", List.of(found.offset(), found.timestamp()));
            saw.put("afterTheEnd", consumer.offsetsForTimes(Map.of(here, 1_700_000_099_000L)).get(here));
            consumer.subscribe(List.of(topic));
            setting.poll(consumer, 10);
            consumer.seek(here, 7);
            saw.put("sought", setting.poll(consumer, 3).stream().map(ConsumerRecord::offset).toList());
            consumer.commitSync(Map.of(here, new OffsetAndMetadata(4, "my place")));
            OffsetAndMetadata committed = consumer.committed(java.util.Set.of(here)).get(here);
            saw.put("committed", List.of(committed.offset(), committed.metadata()));
        }
        try (KafkaConsumer<String, String> consumer = setting.consumer(group)) {
            consumer.subscribe(List.of(topic));
            saw.put("resumed", setting.poll(consumer, 6).stream().map(ConsumerRecord::offset).toList());
        }
        return saw;
    }

    Map<String, Object> wakesUp() throws Exception {
        String topic = setting.makeTopic(1);
        try (KafkaConsumer<String, String> consumer =
                setting.consumer("waiting", "fetch.max.wait.ms", 25_000, "request.timeout.ms", 60_000)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            int before = consumer.poll(Duration.ofMillis(1000)).count();
            setting.send(topic, "wake");
            int after = consumer.poll(Duration.ofMillis(15_000)).count();
            return Map.of("before", before, "after", after);
        }
    }

    Map<String, Object> firstUse() throws Exception {
        String made = setting.freshName("made-by-use");
        setting.send(made, "x");
        String unused = setting.freshName("never-made");
        try (KafkaConsumer<String, String> consumer = setting.consumer("nobody", "allow.auto.create.topics", false)) {
            consumer.subscribe(List.of(unused));
            consumer.poll(Duration.ofMillis(500));
        }
        java.util.Set<String> topics = Setting.get(setting.admin.listTopics().names());
        return Map.of("made", topics.contains(made), "unused", topics.contains(unused));
    }
}
