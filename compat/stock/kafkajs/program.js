// kafkajs as a client of the suite.

import { createRequire } from "node:module";
import kafkajs from "kafkajs";
import { Administering } from "./admin.js";
import { readyCodecs } from "./codecs.js";
import { Consumer } from "./consuming.js";
import { Refused, run, soon } from "./line.js";
import { Producer } from "./producing.js";

const COMMANDS = {
  producers: ["produce", "begin", "send_offsets", "commit_transaction", "abort_transaction"],
  consumers: ["subscribe", "assign", "poll", "seek", "pause", "resume", "commit", "committed", "offsets_at"],
  admins: [
    "create_topics", "delete_topics", "list_topics", "describe_topics", "create_partitions",
    "describe_configs", "replace_configs", "delete_records", "list_offsets", "describe_cluster",
    "list_groups", "describe_group", "group_offsets", "alter_group_offsets", "delete_group",
  ],
};

class Program {
  open = new Map();
  commands = ["hello", "reset", "close", "open_producer", "open_consumer", "open_admin"];

  constructor() {
    for (const command of Object.values(COMMANDS).flat()) {
      this.commands.push(command);
      this[command] = (options) => this.open.get(options.on)[command](options, this);
    }
  }

  hello() {
    const { version } = createRequire(import.meta.url)("kafkajs/package.json");
    return { client: "kafkajs", version };
  }

  async reset() {
    const all = [...this.open.values()];
    this.open.clear();
    await soon(all.map((it) => it.close()));
  }

  async close({ on }) {
    const it = this.open.get(on);
    this.open.delete(on);
    await it.close();
  }

  async open_producer(options) {
    await this.begin_with(options, new Producer(client(options), options));
  }

  async open_consumer(options) {
    await this.begin_with(options, new Consumer(client(options), options));
  }

  async open_admin(options) {
    await this.begin_with(options, new Administering(client(options)));
  }

  async begin_with({ on }, it) {
    this.open.set(on, it);
    await it.connect();
  }

  told(error) {
    return { code: codeOf(error), text: `${error.name}: ${error.message}` };
  }
}

function client({ bootstrap, client_id, request_timeout_ms }) {
  return new kafkajs.Kafka({
    clientId: client_id,
    brokers: bootstrap.split(","),
    logLevel: kafkajs.logLevel.WARN,
    ...(request_timeout_ms ? { requestTimeout: request_timeout_ms } : {}),
  });
}

// The code is often in an error that another one wraps.
function codeOf(error) {
  if (error instanceof Refused) return error.code;
  const parts = [error.groups, error.partitions].flatMap((its) => its ?? []);
  const inner = [error.cause, error.originalError, ...(error.errors ?? []), ...parts.map((it) => it.error)];
  for (const it of [error, ...inner]) {
    if (it === undefined || it === null) continue;
    if (it.name === "KafkaJSRequestTimeoutError") return "TIMED_OUT";
    if (it !== error && codeOf(it) !== "CLIENT") return codeOf(it);
    if (it !== error) continue;
    if (Number.isInteger(it.code) && it.code > 0) return it.code; // some names are of long ago
    if (it.type) return it.type;
  }
  return "CLIENT";
}

await readyCodecs();
await run(new Program());
