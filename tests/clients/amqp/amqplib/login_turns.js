// node login_turns.js SETTINGS QUEUE: for each line of standard input one turn of the same connection, which sends the line
// and reads it back. Prints a JSON line for each: what was read, or the error that refused it.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");
const amqp = require("amqplib");

const [file, queue] = process.argv.slice(2);
const { url, authority, certificate, key } = JSON.parse(fs.readFileSync(file, "utf8"));
const read = (path) => (path ? fs.readFileSync(path) : undefined);
const options = authority ? { ca: [read(authority)], cert: read(certificate), key: read(key) } : {};
if (certificate) options.credentials = amqp.credentials.external();

let channel;
let closed;
async function turn(line) {
  if (closed) throw closed;
  if (!channel) {
    const connection = await amqp.connect(url, options);
    connection.on("error", (error) => (closed = error));
    connection.on("close", (error) => (closed = closed || error || new Error("closed")));
    channel = await connection.createConfirmChannel();
    await channel.assertQueue(queue);
  }
  channel.sendToQueue(queue, Buffer.from(line));
  await channel.waitForConfirms();
  for (let number = 0; number < 400; number++) {
    const message = await channel.get(queue, { noAck: true });
    if (message) return message.content.toString();
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error("the message did not come");
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    try {
      console.log(JSON.stringify({ saw: await turn(line) }));
    } catch (error) {
      console.log(JSON.stringify({ refused: String(error.message) }));
    }
  }
  process.exit(0);
})();
