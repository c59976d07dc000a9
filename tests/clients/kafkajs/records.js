// Records and offsets.
"use strict";

const { admin, CompressionTypes, freshName, kafka, makeTopic, newConsumer, read, text, within } = require("./setting");

const COMPRESSIONS = ["None", "GZIP", "Snappy", "LZ4", "ZSTD"];

async function withProducer(settings, use) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await use(producer);
  } finally {
    await producer.disconnect();
  }
}

async function roundTrip() {
  const topic = await makeTopic();
  const sent = await withProducer({}, (producer) =>
    producer.send({
      topic,
      acks: -1,
      messages: [
        { key: "kéy", value: "välue", headers: { trace: "abc", many: ["one", "two"] }, timestamp: "1700000000123" },
        { key: "tombstone", value: null },
        { key: null, value: "" },
      ],
    }),
  );
  const [first, second, third] = await read(topic, 3);
  return {
    baseOffset: sent[0].baseOffset,
    first: {
      key: text(first.key),
      value: text(first.value),
      timestamp: first.timestamp,
      offset: first.offset,
      trace: text(first.headers.trace),
      many: first.headers.many.map(text),
    },
    second: { key: text(second.key), value: text(second.value) },
    third: { key: text(third.key), value: text(third.value) },
  };
}

async function compressions() {
  const value = (name, number) => `${name}-${number} ${"longhall ".repeat(50)}`;
  const topic = await makeTopic();
  await withProducer({}, async (producer) => {
    for (const name of COMPRESSIONS) {
      const messages = Array.from({ length: 50 }, (_, number) => ({ value: value(name, number) }));
      await producer.send({ topic, compression: CompressionTypes[name], messages });
    }
  });
  const got = (await read(topic, 250)).map((message) => text(message.value));
  const expected = COMPRESSIONS.flatMap((name) => Array.from({ length: 50 }, (_, number) => value(name, number)));
  return { equal: JSON.stringify(got) === JSON.stringify(expected) };
}

async function sizes() {
  const topic = await makeTopic();
  return withProducer({ retry: { retries: 0 } }, async (producer) => {
    await producer.send({ topic, messages: [{ value: Buffer.alloc(900 * 1024, "x") }] });
    let refused = "nothing";
    try {
      await producer.send({ topic, messages: [{ value: Buffer.alloc(2 * 1024 * 1024, "x") }] });
    } catch (error) {
      refused = error.type;
    }
    await producer.send({ topic, messages: [{ value: "small" }] });
    const got = await read(topic, 2, { maxBytesPerPartition: 1000 });
    return { refused, lengths: got.map((message) => message.value.length) };
  });
}

async function acknowledgements() {
  const topic = await makeTopic();
  await withProducer({}, async (producer) => {
    for (const acks of [0, 1, -1]) await producer.send({ topic, acks, messages: [{ value: String(acks) }] });
  });
  return { values: (await read(topic, 3)).map((message) => text(message.value)) };
}

async function keyHash() {
  const topic = await makeTopic(3);
  const keys = Array.from({ length: 60 }, (_, number) => `key-${number}`);
  await withProducer({}, (producer) => producer.send({ topic, messages: keys.map((key) => ({ key, value: "x" })) }));
  const got = await read(topic, 60);
  return { places: Object.fromEntries(got.map((message) => [text(message.key), message.partition])) };
}

async function offsets() {
  const topic = await makeTopic();
  const messages = Array.from({ length: 10 }, (_, n) => ({ value: String(n), timestamp: String(1700000000000 + n * 1000) }));
  await withProducer({}, (producer) => producer.send({ topic, messages }));
  const [places] = await admin.fetchTopicOffsets(topic);
  const [byTime] = await admin.fetchTopicOffsetsByTimestamp(topic, 1700000003500);
  const groupId = freshName("group");
  await read(topic, 4, { groupId, commit: true });
  const resumed = await read(topic, 6, { groupId });
  return { places, byTime, resumed: resumed.map((message) => message.offset) };
}

async function seek() {
  const topic = await makeTopic();
  await withProducer({}, (producer) =>
    producer.send({ topic, messages: Array.from({ length: 10 }, (_, n) => ({ value: String(n) })) }),
  );
  const consumer = newConsumer(freshName("group"));
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const got = [];
  const done = new Promise((resolve) => {
    consumer.run({
      eachMessage: async ({ message }) => {
        got.push(message.offset);
        if (message.offset === "9") resolve();
      },
    });
  });
  consumer.seek({ topic, partition: 0, offset: "7" });
  await within(done, "the last message");
  await consumer.disconnect();
  return { got };
}

async function wakesUp() {
  const topic = await makeTopic();
  const consumer = newConsumer(freshName("group"), { maxWaitTimeInMs: 40000 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  let wake;
  const woken = new Promise((resolve) => (wake = resolve));
  const fetching = new Promise((resolve) => consumer.on(consumer.events.FETCH_START, resolve));
  await consumer.run({ eachMessage: async ({ message }) => wake(text(message.value)) });
  await within(fetching, "the first fetch");
  await withProducer({}, (producer) => producer.send({ topic, messages: [{ value: "wake" }] }));
  const value = await within(woken, "the reader to wake up", 20000);
  await consumer.disconnect();
  return { value };
}

async function firstUse() {
  const made = freshName("made-by-use");
  await withProducer({}, (producer) => producer.send({ topic: made, messages: [{ value: "x" }] }));
  const unused = freshName("never-made");
  let refused = "nothing";
  try {
    await withProducer({ allowAutoTopicCreation: false, retry: { retries: 1 } }, (producer) =>
      producer.send({ topic: unused, messages: [{ value: "x" }] }),
    );
  } catch (error) {
    refused = error.type || (error.cause && error.cause.type);
  }
  const topics = await admin.listTopics();
  return { made: topics.includes(made), refused, unused: topics.includes(unused) };
}

module.exports = {
  roundTrip, compressions, sizes, acknowledgements, keyHash, offsets, seek, wakesUp, firstUse, withProducer,
};
