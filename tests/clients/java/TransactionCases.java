import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Idempotence and transactions, and the tools for hung ones. */
final class TransactionCases {
    private static final Object[] COMMITTED = {"isolation.level", "read_committed"};
    private final Setting setting;
    private final Admin admin;

    TransactionCases(Setting setting) {
        this.setting = setting;
        this.admin = setting.admin;
    }

    private KafkaProducer<String, String> transactional(String name, Object... settings) {
        Object[] all = new Object[settings.length + 2];
        all[0] = "transactional.id";
        all[1] = name;
        System.arraycopy(settings, 0, all, 2, settings.length);
        KafkaProducer<String, String> producer = setting.producer(all);
        producer.initTransactions();
        return producer;
    }

    Map<String, Object> idempotent() throws Exception {
        String topic = setting.makeTopic(1);
        try (KafkaProducer<String, String> producer = setting.producer("batch.size", 100, "linger.ms", 0)) {
            for (int number = 0; number < 500; number++) {
                producer.send(new ProducerRecord<>(topic, "" + number));
            }
        }
        List<String> got = Setting.values(setting.read(topic, 1, 500));
        boolean ordered = true;
        for (int number = 0; number < got.size(); number++) {
            ordered &= got.get(number).equals("" + number);
        }
        return Map.of("count", got.size(), "ordered", ordered);
    }

    Map<String, Object> commitAbort() throws Exception {
        String topic = setting.makeTopic(2);
        try (KafkaProducer<String, String> producer = transactional(setting.freshName("txn"))) {
            for (String word : List.of("one", "two", "three")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, word)).get();
                producer.send(new ProducerRecord<>(topic, 1, null, word)).get();
                if (word.equals("two")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("committed", Setting.values(setting.read(topic, 2, 4, COMMITTED)).stream().sorted().toList());
        saw.put("everything", Setting.values(setting.read(topic, 2, 6)).stream().sorted().toList());
        return saw;
    }

    Map<String, Object> consumeTransformProduce() throws Exception {
        return consumeTransformProduce("classic");
    }

    Map<String, Object> consumeTransformProduceByServer() throws Exception {
        return consumeTransformProduce("consumer");
    }

    private Map<String, Object> consumeTransformProduce(String protocol) throws Exception {
        String source = setting.makeTopic(1);
        String target = setting.makeTopic(1);
        String group = setting.freshName("group");
        TopicPartition here = new TopicPartition(source, 0);
        setting.send(source, "a", "b", "c");
        Map<String, Object> saw = new LinkedHashMap<>();
        try (KafkaProducer<String, String> producer = transactional(setting.freshName("txn"));
                KafkaConsumer<String, String> consumer =
                        setting.consumer(group, "isolation.level", "read_committed", "group.protocol", protocol)) {
            consumer.subscribe(List.of(source));
            List<String> got = Setting.values(setting.poll(consumer, 3));
            for (boolean commit : new boolean[] {false, true}) {
                producer.beginTransaction();
                for (String value : got) {
                    producer.send(new ProducerRecord<>(target, value.toUpperCase()));
                }
                producer.sendOffsetsToTransaction(Map.of(here, new OffsetAndMetadata(commit ? 3 : 2)), consumer.groupMetadata());
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                OffsetAndMetadata committed = consumer.committed(java.util.Set.of(here)).get(here);
                saw.put(commit ? "afterCommit" : "afterAbort", committed == null ? null : committed.offset());
            }
        }
        saw.put("output", Setting.values(setting.read(target, 1, 3, COMMITTED)));
        return saw;
    }

    Map<String, Object> fenced() throws Exception {
        String topic = setting.makeTopic(1);
        String name = setting.freshName("txn");
        Map<String, Object> saw = new LinkedHashMap<>();
        KafkaProducer<String, String> zombie = transactional(name);
        zombie.beginTransaction();
        zombie.send(new ProducerRecord<>(topic, "zombie")).get();
        try (KafkaProducer<String, String> newer = transactional(name)) {
            saw.put("zombie", Setting.refusal(() -> {
                zombie.commitTransaction();
                return null;
            }));
            newer.beginTransaction();
            newer.send(new ProducerRecord<>(topic, "newer")).get();
            newer.commitTransaction();
        }
        zombie.close(java.time.Duration.ZERO);
        saw.put("committed", Setting.values(setting.read(topic, 1, 1, COMMITTED)));
        return saw;
    }

    Map<String, Object> fencedByAdmin() throws Exception {
        String topic = setting.makeTopic(1);
        String name = setting.freshName("txn");
        KafkaProducer<String, String> producer = transactional(name);
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, "x")).get();
        Setting.get(admin.fenceProducers(List.of(name)).all());
        String refused = Setting.refusal(() -> {
            producer.commitTransaction();
            return null;
        });
        producer.close(java.time.Duration.ZERO);
        return Map.of("refused", refused);
    }

    Map<String, Object> hung() throws Exception {
        String topic = setting.makeTopic(1);
        String name = setting.freshName("txn");
        TopicPartition here = new TopicPartition(topic, 0);
        KafkaProducer<String, String> hung = transactional(name, "transaction.timeout.ms", 600_000);
        hung.beginTransaction();
        hung.send(new ProducerRecord<>(topic, "hung")).get();
        setting.send(topic, "behind");
        Map<String, Object> saw = new LinkedHashMap<>();
        saw.put("listed", Setting.get(admin.listTransactions().all()).stream()
                .filter(listing -> listing.transactionalId().equals(name)).map(listing -> listing.state().toString()).toList());
        TransactionDescription described = Setting.get(admin.describeTransactions(List.of(name)).description(name));
        saw.put("partitions", described.topicPartitions().stream().map(TopicPartition::partition).toList());
        saw.put("timeout", described.transactionTimeoutMs());
        ProducerState state = Setting.get(admin.describeProducers(List.of(here)).partitionResult(here)).activeProducers().stream()
                .filter(producer -> producer.producerId() == described.producerId()).findFirst().orElseThrow();
        saw.put("startOffset", state.currentTransactionStartOffset().orElse(-1));
        Setting.get(admin.abortTransaction(new AbortTransactionSpec(
                here, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all());
        saw.put("free", Setting.values(setting.read(topic, 1, 1, COMMITTED)));
        hung.close(java.time.Duration.ZERO);
        return saw;
    }

    Map<String, Object> terminated() throws Exception {
        String topic = setting.makeTopic(1);
        String name = setting.freshName("txn");
        KafkaProducer<String, String> producer = transactional(name, "transaction.timeout.ms", 600_000);
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, "x")).get();
        Setting.get(admin.forceTerminateTransaction(name).result());
        setting.send(topic, "behind");
        List<String> free = Setting.values(setting.read(topic, 1, 1, COMMITTED));
        producer.close(java.time.Duration.ZERO);
        return Map.of("free", free);
    }
}
