// node cases.js URL RUN [CASE]: runs every case, or that one, and prints one JSON line for each, with what it saw or how
// it failed.
"use strict";

const amqp = require("amqplib");

const [url, run, chosen] = process.argv.slice(2);
let count = 0;
const freshName = (word) => `amqplib-${word}-${run}-${++count}`;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(found) {
  for (let turn = 0; turn < 400; turn++) {
    if (await found()) return;
    await sleep(25);
  }
  throw new Error("it did not come");
}

// The message of a get, waiting for it a little.
async function get(channel, queue, options = { noAck: true }) {
  for (let turn = 0; turn < 400; turn++) {
    const message = await channel.get(queue, options);
    if (message) return message;
    await sleep(25);
  }
  throw new Error(`nothing came from ${queue}`);
}

// The error that closes a channel of its own on which `act` runs.
async function refusal(connection, act) {
  const channel = await connection.createChannel();
  const closed = new Promise((resolve) => channel.on("error", resolve));
  try {
    await act(channel);
  } catch (error) {
    // The channel says why.
  }
  const error = await closed;
  return { code: error.code, text: error.message };
}

const cases = {
  async roundTrip(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(freshName("round"), { durable: true });
    const options = {
      contentType: "text/plain",
      contentEncoding: "utf-8",
      headers: { n: 1, deep: { list: [1, "two", true, null] }, when: { "!": "timestamp", value: 1700000000 } },
      deliveryMode: 2,
      priority: 3,
      correlationId: "c",
      replyTo: "r",
      expiration: "60000",
      messageId: "m",
      timestamp: 1700000000,
      type: "t",
      userId: "guest",
      appId: "a",
    };
    channel.sendToQueue(queue, Buffer.from("välue"), options);
    await channel.waitForConfirms();
    const { content, properties, fields } = await get(channel, queue);
    delete properties.clusterId;
    return { content: content.toString(), properties, left: fields.messageCount, key: fields.routingKey === queue };
  },

  async consumers(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.prefetch(2);
    const got = [];
    const { consumerTag } = await channel.consume(queue, (message) => got.push(message));
    for (let number = 0; number < 5; number++) channel.sendToQueue(queue, Buffer.from(String(number)));
    await until(() => got.length === 2);
    await sleep(100);
    const bounded = got.length;
    channel.ack(got[0]);
    channel.nack(got[1]);
    await until(() => got.length === 4);
    const again = got.filter((message) => message.fields.redelivered).map((message) => message.content.toString());
    channel.ackAll();
    await until(() => got.length === 6);
    await channel.cancel(consumerTag);
    channel.nackAll(true);
    const { messageCount } = await channel.checkQueue(queue);
    await channel.recover();
    return { bounded, again, messageCount, named: queue.startsWith("amq.gen-") };
  },

  async exchanges(connection) {
    const channel = await connection.createConfirmChannel();
    const saw = {};
    const publish = async (kind, bindings, publications, options = {}) => {
      const { exchange } = await channel.assertExchange(freshName(kind), kind, options);
      const { queue } = await channel.assertQueue("", { exclusive: true });
      for (const [key, args] of bindings) await channel.bindQueue(queue, exchange, key, args);
      for (const [key, headers] of publications) channel.publish(exchange, key, Buffer.from(key), { headers });
      await channel.waitForConfirms();
      const found = [];
      for (;;) {
        const message = await channel.get(queue, { noAck: true });
        if (!message) break;
        found.push(message.content.toString());
      }
      saw[kind] = found;
      return exchange;
    };
    await publish("direct", [["a"]], [["a"], ["b"]]);
    await publish("fanout", [[""]], [["a"], ["b"]]);
    await publish("topic", [["a.*.c"], ["x.#"]], [["a.b.c"], ["a.c"], ["x"], ["x.y.z"]]);
    await publish("headers", [["", { "x-match": "any", one: 1 }]], [["in", { one: 1 }], ["out", { two: 2 }]]);
    const source = (await channel.assertExchange(freshName("source"), "fanout")).exchange;
    const target = (await channel.assertExchange(freshName("target"), "direct")).exchange;
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindExchange(target, source, "");
    await channel.bindQueue(queue, target, "k");
    channel.publish(source, "k", Buffer.from("through"));
    saw.through = (await get(channel, queue)).content.toString();
    await channel.unbindExchange(target, source, "");
    await channel.unbindQueue(queue, target, "k");
    await channel.deleteExchange(source);
    return saw;
  },

  async returnsAndConfirms(connection) {
    const channel = await connection.createConfirmChannel();
    const returned = [];
    channel.on("return", (message) => returned.push([message.content.toString(), message.fields.replyCode]));
    channel.publish("", freshName("nowhere"), Buffer.from("x"), { mandatory: true });
    await channel.waitForConfirms();
    const { queue } = await channel.assertQueue(freshName("full"), { maxLength: 1, overflow: "reject-publish" });
    const outcome = (body) =>
      new Promise((resolve) => channel.sendToQueue(queue, Buffer.from(body), {}, (error) => resolve(error ? "nack" : "ack")));
    return { returned, outcomes: [await outcome("1"), await outcome("2")] };
  },

  async deadLetters(connection) {
    const channel = await connection.createChannel();
    const dead = (await channel.assertQueue(freshName("dead"))).queue;
    const { queue } = await channel.assertQueue(freshName("dying"), {
      deadLetterExchange: "",
      deadLetterRoutingKey: dead,
      messageTtl: 60000,
    });
    channel.sendToQueue(queue, Buffer.from("x"));
    channel.reject(await get(channel, queue, {}), false);
    const { properties } = await get(channel, dead);
    const death = properties.headers["x-death"][0];
    return { reason: death.reason, count: death.count, queue: death.queue === queue };
  },

  async directReply(connection) {
    const client = await connection.createChannel();
    const server = await connection.createChannel();
    const { queue } = await server.assertQueue("", { exclusive: true });
    await server.consume(queue, (message) => {
      server.sendToQueue(message.properties.replyTo, Buffer.from(`re: ${message.content}`));
      server.ack(message);
    });
    const answer = new Promise((resolve) => {
      client.consume("amq.rabbitmq.reply-to", (message) => resolve(message.content.toString()), { noAck: true });
    });
    await client.prefetch(1);
    client.sendToQueue(queue, Buffer.from("question"), { replyTo: "amq.rabbitmq.reply-to" });
    return { answer: await answer };
  },

  async streams(connection) {
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue(freshName("stream"), { arguments: { "x-queue-type": "stream" } });
    for (let number = 0; number < 5; number++) channel.sendToQueue(queue, Buffer.from(String(number)));
    await channel.waitForConfirms();
    await channel.prefetch(10);
    const offsets = [];
    const take = (message) => {
      offsets.push(Number(message.properties.headers["x-stream-offset"]));
      channel.ack(message);
    };
    await channel.consume(queue, take, { arguments: { "x-stream-offset": 2 } });
    await until(() => offsets.length === 3);
    return { offsets };
  },

  async cancelNotice(connection) {
    const channel = await connection.createChannel();
    const { queue } = await channel.assertQueue(freshName("gone"));
    let notice;
    await channel.consume(queue, (message) => (notice = message));
    await (await connection.createChannel()).deleteQueue(queue);
    await until(() => notice === null);
    return { notice };
  },

  async errors(connection) {
    const { queue } = await (await connection.createChannel()).assertQueue(freshName("q"), { durable: true });
    const mine = await amqp.connect(url);
    const own = (await (await mine.createChannel()).assertQueue("", { exclusive: true })).queue;
    const saw = {};
    const acts = {
      unknownQueue: (channel) => channel.checkQueue(freshName("none")),
      unknownExchange: (channel) => channel.publish(freshName("none"), "k", Buffer.from("x")),
      otherArguments: (channel) => channel.assertQueue(queue, { durable: false }),
      exclusive: (channel) => channel.checkQueue(own),
      reserved: (channel) => channel.assertQueue("amq.mine"),
      defaultExchange: (channel) => channel.bindQueue(queue, "", "k"),
      deliveryTag: (channel) => channel.ack({ fields: { deliveryTag: 7 } }),
      exchangeType: (channel) => channel.assertExchange(freshName("x"), "odd"),
      notEmpty: async (channel) => {
        channel.sendToQueue(queue, Buffer.from("x"));
        await channel.deleteQueue(queue, { ifEmpty: true });
      },
    };
    for (const [name, act] of Object.entries(acts)) saw[name] = await refusal(connection, act);
    await mine.close();
    return saw;
  },

  async tune() {
    const connection = await amqp.connect(`${url}?frameMax=4096&heartbeat=1&channelMax=5`);
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.alloc(100000, "x"));
    await channel.waitForConfirms();
    const { content } = await get(channel, queue);
    await sleep(2500); // Heartbeats keep it open.
    const { messageCount } = await channel.checkQueue(queue);
    await connection.close();
    return { size: content.length, messageCount };
  },
};

async function main() {
  const connection = await amqp.connect(url);
  for (const [name, act] of Object.entries(cases)) {
    if (chosen !== undefined && chosen !== name) continue;
    try {
      console.log(JSON.stringify({ case: name, saw: await act(connection) }));
    } catch (error) {
      console.log(JSON.stringify({ case: name, failed: `${error.name} ${error.message} ${error.stack}` }));
    }
  }
  await connection.close();
}

main();
