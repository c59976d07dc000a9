import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** java AmqpCases URL RUN [CASE]: runs every case, or that one, and prints one JSON line for each. */
public final class AmqpCases {
    private final String run;
    private final Connection connection;
    private int count;

    private AmqpCases(Connection connection, String run) {
        this.connection = connection;
        this.run = run;
    }

    private interface Case {
        Map<String, Object> see(Channel channel) throws Exception;
    }

    private interface Act {
        void on(Channel channel) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setUri(arguments[0]);
        Connection connection = factory.newConnection();
        AmqpCases cases = new AmqpCases(connection, arguments[1]);
        Map<String, Case> all = new LinkedHashMap<>();
        all.put("properties", cases::properties);
        all.put("consumers", cases::consumers);
        all.put("exchanges", cases::exchanges);
        all.put("confirms", cases::confirms);
        all.put("transactions", cases::transactions);
        all.put("deadLetters", cases::deadLetters);
        all.put("directReply", cases::directReply);
        all.put("streams", cases::streams);
        all.put("errors", cases::errors);
        for (Map.Entry<String, Case> one : all.entrySet()) {
            if (arguments.length > 2 && !arguments[2].equals(one.getKey())) {
                continue;
            }
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("case", one.getKey());
            try {
                Channel channel = connection.createChannel();
                line.put("saw", one.getValue().see(channel));
                if (channel.isOpen()) {
                    channel.close();
                }
            } catch (Exception error) {
                line.put("failed", error + " " + List.of(error.getStackTrace()));
            }
            System.out.println(Json.of(line));
        }
        connection.close();
    }

    private String name(String word) {
        count += 1;
        return "java-" + word + "-" + run + "-" + count;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    private static GetResponse get(Channel channel, String queue, boolean ack) throws Exception {
        for (int turn = 0; turn < 400; turn++) {
            GetResponse response = channel.basicGet(queue, ack);
            if (response != null) {
                return response;
            }
            Thread.sleep(25);
        }
        throw new IllegalStateException("nothing came from " + queue);
    }

    private Map<String, Object> properties(Channel channel) throws Exception {
        String queue = channel.queueDeclare(name("q"), true, false, false, null).getQueue();
        Map<String, Object> headers = new LinkedHashMap<>();
        headers.put("long", 1L << 40);
        headers.put("text", "välue");
        headers.put("date", new Date(1_700_000_000_000L));
        headers.put("list", List.of(1, "two", true));
        headers.put("table", Map.of("deep", 2.5));
        AMQP.BasicProperties sent = new AMQP.BasicProperties.Builder()
                .contentType("a/b").headers(headers).deliveryMode(2).priority(4).correlationId("c").messageId("m").build();
        channel.basicPublish("", queue, sent, bytes("body"));
        GetResponse response = get(channel, queue, true);
        AMQP.BasicProperties got = response.getProps();
        return Map.of(
                "body", text(response.getBody()),
                "same", sent.getContentType().equals(got.getContentType()) && got.getPriority() == 4,
                "headers", String.valueOf(got.getHeaders().get("text")),
                "long", got.getHeaders().get("long").equals(1L << 40),
                "date", got.getHeaders().get("date").equals(headers.get("date")),
                "list", String.valueOf(got.getHeaders().get("list")),
                "table", String.valueOf(got.getHeaders().get("table")));
    }

    private Map<String, Object> consumers(Channel channel) throws Exception {
        String queue = channel.queueDeclare().getQueue();
        BlockingQueue<Delivery> deliveries = new LinkedBlockingQueue<>();
        channel.basicQos(3);
        String tag = channel.basicConsume(queue, false, (consumer, delivery) -> deliveries.add(delivery), consumer -> {});
        for (int number = 0; number < 6; number++) {
            channel.basicPublish("", queue, MessageProperties.MINIMAL_BASIC, bytes("" + number));
        }
        List<String> bodies = new ArrayList<>();
        long last = 0;
        for (int number = 0; number < 3; number++) {
            Delivery delivery = deliveries.poll(10, TimeUnit.SECONDS);
            bodies.add(text(delivery.getBody()));
            last = delivery.getEnvelope().getDeliveryTag();
        }
        boolean bounded = deliveries.poll(200, TimeUnit.MILLISECONDS) == null;
        channel.basicNack(last, true, true);
        int again = 0;
        while (bodies.size() < 9) {
            Delivery delivery = deliveries.poll(10, TimeUnit.SECONDS);
            bodies.add(text(delivery.getBody()));
            again += delivery.getEnvelope().isRedeliver() ? 1 : 0;
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }
        long left = channel.messageCount(queue);
        channel.basicCancel(tag); // The queue ends with its last consumer.
        return Map.of("bounded", bounded, "bodies", bodies, "again", again, "left", left);
    }

    private Map<String, Object> exchanges(Channel channel) throws Exception {
        String exchange = name("topic");
        String other = name("alternate");
        channel.exchangeDeclare(other, BuiltinExchangeType.FANOUT, false, true, null);
        channel.exchangeDeclare(exchange, BuiltinExchangeType.TOPIC, true, false, Map.of("alternate-exchange", other));
        String queue = channel.queueDeclare().getQueue();
        String rest = channel.queueDeclare().getQueue();
        channel.queueBind(queue, exchange, "a.*");
        channel.queueBind(rest, other, "");
        channel.basicPublish(exchange, "a.b", null, bytes("in"));
        channel.basicPublish(exchange, "b", null, bytes("out"));
        String in = text(get(channel, queue, true).getBody());
        String out = text(get(channel, rest, true).getBody());
        channel.exchangeDeclarePassive(exchange);
        channel.queueUnbind(queue, exchange, "a.*");
        channel.exchangeDelete(exchange, true);
        return Map.of("in", in, "out", out);
    }

    private Map<String, Object> confirms(Channel channel) throws Exception {
        channel.confirmSelect();
        List<Integer> returned = new ArrayList<>();
        channel.addReturnListener(one -> returned.add(one.getReplyCode()));
        channel.basicPublish("", name("nowhere"), true, null, bytes("x"));
        String queue = channel.queueDeclare().getQueue();
        for (int number = 0; number < 500; number++) {
            channel.basicPublish("", queue, null, bytes("" + number));
        }
        channel.waitForConfirmsOrDie(20_000);
        return Map.of("returned", returned, "count", channel.messageCount(queue));
    }

    private Map<String, Object> transactions(Channel channel) throws Exception {
        String source = channel.queueDeclare().getQueue();
        String target = channel.queueDeclare().getQueue();
        channel.basicPublish("", source, null, bytes("x"));
        channel.txSelect();
        GetResponse taken = get(channel, source, false);
        channel.basicAck(taken.getEnvelope().getDeliveryTag(), false);
        channel.basicPublish("", target, null, bytes("y"));
        channel.txRollback();
        long rolled = channel.messageCount(target);
        channel.basicAck(taken.getEnvelope().getDeliveryTag(), false);
        channel.basicPublish("", target, null, bytes("z"));
        channel.txCommit();
        return Map.of("rolled", rolled, "target", channel.messageCount(target), "source", channel.messageCount(source));
    }

    private Map<String, Object> deadLetters(Channel channel) throws Exception {
        String dead = channel.queueDeclare().getQueue();
        Map<String, Object> arguments =
                Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead, "x-message-ttl", 50, "x-max-priority", 3);
        String queue = channel.queueDeclare(name("dying"), true, false, false, arguments).getQueue();
        channel.basicPublish("", queue, null, bytes("x"));
        GetResponse letter = get(channel, dead, true);
        List<?> deaths = (List<?>) letter.getProps().getHeaders().get("x-death");
        Map<?, ?> death = (Map<?, ?>) deaths.get(0);
        return Map.of("count", death.get("count").equals(1L), "reason", death.get("reason").toString(), "time", death.get("time") instanceof Date);
    }

    private Map<String, Object> directReply(Channel channel) throws Exception {
        Channel server = connection.createChannel();
        String queue = server.queueDeclare().getQueue();
        server.basicConsume(queue, true, (consumer, request) ->
                server.basicPublish("", request.getProperties().getReplyTo(), null, bytes("re: " + text(request.getBody()))), consumer -> {});
        BlockingQueue<String> answers = new LinkedBlockingQueue<>();
        channel.basicConsume("amq.rabbitmq.reply-to", true, (consumer, answer) -> answers.add(text(answer.getBody())), consumer -> {});
        channel.basicPublish("", queue, new AMQP.BasicProperties.Builder().replyTo("amq.rabbitmq.reply-to").build(), bytes("q"));
        return Map.of("answer", String.valueOf(answers.poll(10, TimeUnit.SECONDS)));
    }

    private Map<String, Object> streams(Channel channel) throws Exception {
        Map<String, Object> arguments = Map.of("x-queue-type", "stream", "x-max-age", "1D", "x-max-length-bytes", 1_000_000_000L);
        String queue = channel.queueDeclare(name("stream"), true, false, false, arguments).getQueue();
        channel.confirmSelect();
        for (int number = 0; number < 5; number++) {
            channel.basicPublish("", queue, null, bytes("" + number));
        }
        channel.waitForConfirmsOrDie(20_000);
        channel.basicQos(2);
        BlockingQueue<Long> offsets = new LinkedBlockingQueue<>();
        channel.basicConsume(queue, false, Map.of("x-stream-offset", new Date(0)), (consumer, delivery) -> {
            offsets.add((Long) delivery.getProperties().getHeaders().get("x-stream-offset"));
            channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);
        }, consumer -> {});
        List<Object> found = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            found.add(offsets.poll(10, TimeUnit.SECONDS));
        }
        return Map.of("offsets", found);
    }

    private Map<String, Object> errors(Channel channel) throws Exception {
        String queue = channel.queueDeclare(name("q"), true, false, false, null).getQueue();
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("unknown", code(one -> one.queueDeclarePassive(name("none"))));
        found.put("other", code(one -> one.queueDeclare(queue, false, false, false, null)));
        found.put("argument", code(one -> one.queueDeclare(name("bad"), true, false, false, Map.of("x-max-length", -1))));
        found.put("quorum", code(one -> one.queueDeclare(name("bad"), false, false, false, Map.of("x-queue-type", "quorum"))));
        found.put("internal", code(one -> {
            String exchange = name("internal");
            one.exchangeDeclare(exchange, BuiltinExchangeType.DIRECT, false, false, true, null);
            one.basicPublish(exchange, "k", null, bytes("x"));
            one.queueDeclarePassive(queue);
        }));
        found.put("tag", code(one -> {
            one.basicAck(9, false);
            one.queueDeclarePassive(queue);
        }));
        found.put("unused", code(one -> {
            channel.basicConsume(queue, (consumer, delivery) -> {}, consumer -> {});
            one.queueDelete(queue, true, false);
        }));
        found.put("exclusive", code(one -> one.basicConsume(queue, false, "", false, true, null, new com.rabbitmq.client.DefaultConsumer(one))));
        return found;
    }

    /** The code that closes a channel of its own on which this runs. */
    private int code(Act act) throws Exception {
        Channel channel = connection.createChannel();
        try {
            act.on(channel);
        } catch (IOException error) {
            if (error.getCause() instanceof ShutdownSignalException signal) {
                return ((AMQP.Channel.Close) signal.getReason()).getReplyCode();
            }
            throw error;
        } catch (AlreadyClosedException closed) {
            return ((AMQP.Channel.Close) closed.getReason()).getReplyCode();
        }
        return 0;
    }
}
