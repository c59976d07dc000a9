// What every case starts from: one Kafka object, codecs for all compressions, fresh names, and short words for reading.
"use strict";

const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const lz4 = require("lz4js");
const xxh32 = require("lz4js/xxh32.js");
const zstd = require("@bokuweb/zstd-wasm");

const [bootstrap, run] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: "kafkajs-cases",
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  // A lookup that is retried waits for long by default.
  retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 10 },
  requestTimeout: 60000,
});

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
// Kafka takes frames of independent blocks only. Up to 4 MB this library makes one block but does not say so: we do.
function independent(frame) {
  frame[4] |= 0x20;
  frame[6] = (xxh32.hash(0, frame, 4, 2) >> 8) & 0xff;
  return Buffer.from(frame);
}

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => independent(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer, 3)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

let count = 0;
const freshName = (word) => `js-${word}-${run}-${++count}`;

const admin = kafka.admin();

async function makeTopic(numPartitions = 1) {
  const topic = freshName("topic");
  // Some records are stamped long ago, and must not be too old to keep.
  const configEntries = [{ name: "retention.ms", value: "-1" }];
  const topics = [{ topic, numPartitions, replicationFactor: 1, configEntries }];
  await admin.createTopics({ topics, waitForLeaders: true });
  return topic;
}

// Promises that fail by name instead of hanging the whole run.
function within(promise, what, milliseconds = 30000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${milliseconds} ms: ${what}`)), milliseconds);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function until(holds, what) {
  const deadline = Date.now() + 30000;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`not within 30000 ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function newConsumer(groupId, settings = {}) {
  return kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 300, maxWaitTimeInMs: 500, ...settings });
}

// Reads a topic from its beginning until so many messages came.
async function read(topic, wanted, { groupId = freshName("group"), commit = false, ...settings } = {}) {
  const consumer = newConsumer(groupId, settings);
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const got = [];
  const done = new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ partition, message }) => {
          got.push({ partition, ...message });
          if (got.length >= wanted) resolve();
        },
      })
      .catch(reject);
  });
  await within(done, `${wanted} messages of ${topic}, ${got.length} came`);
  if (commit) {
    const last = got[wanted - 1];
    await consumer.commitOffsets([{ topic, partition: last.partition, offset: String(Number(last.offset) + 1) }]);
  }
  await consumer.disconnect();
  return got;
}

const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString());

module.exports = {
  admin, bootstrap, CompressionTypes, freshName, kafka, makeTopic, newConsumer, read, run, text, until, within, zstd,
};
