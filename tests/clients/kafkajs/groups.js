// Groups whose members come, leave and die.
"use strict";

const { spawn } = require("node:child_process");
const path = require("node:path");
const { bootstrap, freshName, makeTopic, newConsumer, run, until } = require("./setting");

// A member that remembers what it owns.
async function join(groupId, topic, owned, settings = {}) {
  const consumer = newConsumer(groupId, settings);
  owned.partitions = [];
  consumer.on(consumer.events.GROUP_JOIN, (event) => {
    owned.partitions = event.payload.memberAssignment[topic] || [];
  });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await consumer.run({ eachMessage: async () => {} });
  return consumer;
}

const sizes = (...members) => members.map((member) => member.partitions.length).join();
const union = (...members) => members.flatMap((member) => member.partitions).sort();

async function comeAndLeave() {
  const [topic, groupId] = [await makeTopic(4), freshName("group")];
  const [a, b] = [{}, {}];
  const first = await join(groupId, topic, a);
  await until(() => sizes(a) === "4", "the first member owns all");
  const second = await join(groupId, topic, b);
  await until(() => sizes(a, b) === "2,2", "two members share");
  const shared = union(a, b);
  await second.disconnect();
  await until(() => sizes(a) === "4", "the first member owns all again");
  await first.disconnect();
  return { shared };
}

async function dies() {
  const [topic, groupId] = [await makeTopic(4), freshName("group")];
  const owned = {};
  const program = path.join(__dirname, "member.js");
  const doomed = spawn(process.execPath, [program, bootstrap, run, groupId, topic], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => doomed.stdout.once("data", resolve));
  const survivor = await join(groupId, topic, owned);
  await until(() => sizes(owned) === "2", "two members share");
  doomed.kill("SIGKILL");
  await until(() => sizes(owned) === "4", "the survivor owns all");
  await survivor.disconnect();
  return { owned: union(owned) };
}

module.exports = { comeAndLeave, dies, join };
