// node login_turns.js SETTINGS TOPIC: for each line of standard input one turn of the same clients, which sends the line
// and reads it back. Prints a JSON line for each: what was read, or the error that refused it.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");
const { Kafka, logLevel } = require("kafkajs");

const [file, topic] = process.argv.slice(2);
const { authority, certificate, key, ...settings } = JSON.parse(fs.readFileSync(file, "utf8"));
if (authority) {
  const read = (path) => (path ? fs.readFileSync(path, "utf8") : undefined);
  settings.ssl = { ca: [read(authority)], cert: read(certificate), key: read(key) };
}
const kafka = new Kafka({
  clientId: "kafkajs-logins",
  logLevel: logLevel.NOTHING,
  // A user who was disabled is not to be tried for long.
  retry: { initialRetryTime: 50, maxRetryTime: 100, retries: 2 },
  ...settings,
});
const producer = kafka.producer({ retry: { initialRetryTime: 50, maxRetryTime: 100, retries: 2 } });
const values = [];

async function wait(value) {
  for (let turn = 0; turn < 600; turn++) {
    if (values.includes(value)) return value;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error("the message did not come");
}

let reading;
async function turn(line) {
  await producer.connect();
  await producer.send({ topic, messages: [{ value: line }] });
  if (reading === undefined) {
    const consumer = kafka.consumer({ groupId: `logins-${topic}-${process.pid}`, maxWaitTimeInMs: 300 });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    reading = consumer.run({ eachMessage: async ({ message }) => values.push(message.value.toString()) });
  }
  return wait(line);
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify({ saw: await turn(line) }));
    } catch (error) {
      console.log(JSON.stringify({ refused: `${error.name} ${error.message}` }));
    }
  }
  process.exit(0);
})();
