// node cases.js BOOTSTRAP RUN [CASE]: runs every case, or that one, and prints one JSON line for each, with what it saw or
// how it failed.
"use strict";

const { admin, zstd } = require("./setting");

const rooms = {
  records: require("./records"),
  groups: require("./groups"),
  admin: require("./admin"),
  transactions: require("./transactions"),
};
const helpers = new Set(["withProducer", "join"]);
const chosen = process.argv[4];

async function one(name, run) {
  try {
    console.log(JSON.stringify({ case: name, saw: await run() }));
  } catch (error) {
    console.log(JSON.stringify({ case: name, failed: `${error.name} ${error.message} ${error.stack}` }));
  }
}

async function main() {
  await zstd.init();
  await admin.connect();
  // The rooms run side by side, the cases of a room one after another: most of their time is waiting.
  const lanes = Object.entries(rooms).map(async ([room, cases]) => {
    for (const [name, run] of Object.entries(cases)) {
      if (!helpers.has(name) && (chosen === undefined || chosen === name)) await one(`${room}.${name}`, run);
    }
  });
  await Promise.all(lanes);
  await admin.disconnect();
  process.exit(0);
}

main();
