// Idempotence and transactions.
"use strict";

const { freshName, kafka, makeTopic, read, text } = require("./setting");
const { withProducer } = require("./records");
const { admin } = require("./setting");

const values = async (topic, count, settings) => (await read(topic, count, settings)).map((m) => text(m.value));

async function idempotent() {
  const topic = await makeTopic();
  await withProducer({ idempotent: true, maxInFlightRequests: 1 }, async (producer) => {
    for (let n = 0; n < 20; n++) await producer.send({ topic, messages: [{ value: String(n) }] });
  });
  return { values: await values(topic, 20) };
}

async function transactional(transactionalId) {
  const producer = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1, retry: { retries: 2 } });
  await producer.connect();
  return producer;
}

async function commitAbort() {
  const topic = await makeTopic();
  const producer = await transactional(freshName("txn"));
  for (const [word, end] of [["one", "commit"], ["two", "abort"], ["three", "commit"]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: word }] });
    await transaction[end]();
  }
  await producer.disconnect();
  return { committed: await values(topic, 2), everything: await values(topic, 3, { readUncommitted: true }) };
}

async function offsetsInside() {
  const [topic, groupId] = [await makeTopic(), freshName("group")];
  const producer = await transactional(freshName("txn"));
  const seen = [];
  for (const [offset, end] of [["7", "commit"], ["9", "abort"]]) {
    const transaction = await producer.transaction();
    await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset }] }] });
    await transaction[end]();
    const [found] = await admin.fetchOffsets({ groupId, topics: [topic] });
    seen.push(found.partitions[0].offset);
  }
  await producer.disconnect();
  return { seen };
}

async function fenced() {
  const [topic, id] = [await makeTopic(), freshName("txn")];
  const zombie = await transactional(id);
  const open = await zombie.transaction();
  await open.send({ topic, messages: [{ value: "zombie" }] });
  const newer = await transactional(id);
  const transaction = await newer.transaction(); // Only now does this client ask for its producer id.
  let refused = "nothing";
  try {
    await open.commit();
  } catch (error) {
    refused = error.type || (error.cause && error.cause.type) || error.name;
  }
  await transaction.send({ topic, messages: [{ value: "newer" }] });
  await transaction.commit();
  await zombie.disconnect();
  await newer.disconnect();
  return { refused, committed: await values(topic, 1) };
}

module.exports = { idempotent, commitAbort, offsetsInside, fenced };
