// A member in a process of its own, to be killed: prints a line when it owns something.
"use strict";

const { join } = require("./groups");

const [groupId, topic] = process.argv.slice(4);
const owned = {};
join(groupId, topic, owned).then(() => {
  const timer = setInterval(() => {
    if (owned.partitions.length > 0) {
      clearInterval(timer);
      console.log("joined");
    }
  }, 20);
});
