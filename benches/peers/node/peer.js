// pg-logical-replication behind the line protocol of benches/peers.
"use strict";

const fs = require("node:fs");
const readline = require("node:readline");
const { PgoutputPlugin } = require("pg-logical-replication");

const XLOG_DATA = 25; // bytes in front of a pgoutput message
const TAGS = {
  begin: "B", commit: "C", origin: "O", relation: "R", type: "Y",
  insert: "I", update: "U", delete: "D", truncate: "T", message: "M",
};

let capture = Buffer.alloc(0);

// Parses the payload of each CopyData message, as a driver hands it out.
function forEach(each) {
  const plugin = new PgoutputPlugin({ protoVersion: 1, publicationNames: ["peers"] });
  for (let at = 0; at + 5 <= capture.length; ) {
    const end = at + 1 + capture.readUInt32BE(at + 1);
    if (capture[at] === 0x64 /* d */ && capture[at + 5] === 0x77 /* w */) {
      each(plugin.parse(capture.subarray(at + 5 + XLOG_DATA, end)));
    }
    at = end;
  }
}

function count() {
  const messages = {};
  let [cells, nulls, filled] = [0, 0, false];
  const addTuple = (tuple) => {
    for (const value of Object.values(tuple ?? {})) {
      cells += 1;
      nulls += value === null || value === undefined ? 1 : 0;
    }
  };
  let hasKeys = false;
  forEach((message) => {
    const tag = TAGS[message.tag];
    messages[tag] = (messages[tag] ?? 0) + 1;
    addTuple(message.old);
    addTuple(message.new);
    // What was not sent is filled from an old row, and a key has no other columns.
    filled ||= tag === "U" && message.old !== null;
    hasKeys ||= Boolean(message.key);
  });
  if (hasKeys) return { messages };
  return filled ? { messages, cells } : { messages, cells, nulls };
}

function answer(line) {
  const [word, ...path] = line.split(" ");
  switch (word) {
    case "load":
      capture = fs.readFileSync(path.join(" "));
      return {};
    case "count":
      return count();
    case "pass": {
      let items = 0;
      const start = process.hrtime.bigint();
      forEach((message) => { items += message ? 1 : 0; });
      return { ns: Number(process.hrtime.bigint() - start), items };
    }
    default:
      throw new Error("unknown line: load FILE, count or pass");
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let text;
  try {
    text = JSON.stringify(answer(line));
  } catch (error) {
    text = JSON.stringify({ error: error.message });
  }
  process.stdout.write(`${text}\n`);
});
