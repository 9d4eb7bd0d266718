// Consumers of kafkajs, all of which are members of a group.

import { randomUUID } from "node:crypto";
import kafkajs from "kafkajs";
import { sleep, text } from "./line.js";

const { PartitionAssigners } = kafkajs;
const ASSIGNORS = { roundrobin: PartitionAssigners.roundRobin };
const AT_ONCE = 64;
const LOOK_MS = 20;
const HEARTBEAT_MS = 300;
const RECORDS_MAX = 500;
const RETRY_MS = 300;
const OWN_SESSION_MS = 6_000; // of groups that are there for one reader alone

export class Consumer {
  lots = []; // batches that the library handed over, and what polls have left of each
  failures = [];
  positions = new Map();
  owned = {};
  starts = null; // with partitions taken by hand: where each begins

  constructor(kafka, options) {
    this.options = options;
    this.kafka = kafka;
    this.admin = kafka.admin();
    this.consumer = kafka.consumer(settings(options));
    this.listen();
  }

  listen() {
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events;
    this.consumer.on(GROUP_JOIN, ({ payload }) => this.joined(payload.memberAssignment));
    this.consumer.on(REBALANCING, () => this.joined({}));
    this.consumer.on(CRASH, ({ payload }) => {
      this.joined({});
      this.failures.push(payload.error);
    });
  }

  joined(assignment) {
    this.owned = assignment;
    this.lots = [];
  }

  async connect() {
    await this.admin.connect();
    await this.consumer.connect();
  }

  async close() {
    this.lots = [];
    await Promise.all([this.consumer.disconnect(), this.admin.disconnect()]);
  }

  async subscribe({ topics }) {
    await this.enlist(topics);
    this.read();
  }

  // One by one: several at once came with 2.0.
  async enlist(topics) {
    for (const topic of topics) {
      await this.consumer.subscribe({ topic, fromBeginning: this.options.reset !== "latest" });
    }
  }

  async assign({ partitions }) {
    if (this.starts !== null) await this.consumer.stop();
    this.starts = new Map(partitions.map((it) => [place(it), it]));
    this.lots = [];
    const topics = [...new Set(partitions.map((it) => it.topic))];
    const ends = await this.ends(partitions);
    await this.enlist(topics);
    this.read();
    for (const it of partitions) this.go(it, ends);
    await this.leaveOut(topics);
  }

  // Of the topics, only those partitions are read that were taken.
  async leaveOut(topics) {
    for (const topic of topics) {
      for (const { partition } of await this.admin.fetchTopicOffsets(topic)) {
        if (!this.starts.has(place({ topic, partition }))) {
          this.consumer.pause([{ topic, partitions: [partition] }]);
        }
      }
    }
  }

  async ends(positions) {
    const found = new Map();
    for (const it of positions) {
      if (!["beginning", "end"].includes(it.offset)) continue;
      for (const { partition, low, high } of await this.admin.fetchTopicOffsets(it.topic)) {
        found.set(place({ topic: it.topic, partition }), { beginning: low, end: high });
      }
    }
    return found;
  }

  go({ topic, partition, offset }, ends) {
    if (offset === "committed") return; // where a member begins
    const at = ends.get(place({ topic, partition }))?.[offset] ?? String(offset);
    this.consumer.seek({ topic, partition, offset: at });
  }

  read() {
    const reading = this.consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: AT_ONCE,
      eachBatch: (handed) => this.hold(handed),
    });
    reading.catch((error) => this.failures.push(error));
  }

  // Keeps a batch until polls have taken all of it, and the membership alive meanwhile.
  async hold({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    const { topic, partition } = batch;
    const lot = { topic, partition, resolveOffset, records: batch.messages.map((it) => recordTold(topic, partition, it)) };
    this.lots.push(lot);
    let beaten = Date.now();
    while (lot.records.length > 0) {
      await sleep(LOOK_MS);
      if (!this.lots.includes(lot) || !isRunning() || isStale()) return;
      if (Date.now() - beaten > HEARTBEAT_MS) {
        await heartbeat();
        beaten = Date.now();
      }
    }
    resolveOffset(batch.lastOffset());
  }

  async poll({ timeout_ms }) {
    const deadline = Date.now() + timeout_ms;
    let records = this.taken();
    while (records.length === 0 && Date.now() < deadline) {
      if (this.failures.length > 0) throw this.failures.shift();
      await sleep(LOOK_MS / 4);
      records = this.taken();
    }
    for (const it of records) this.positions.set(place(it), { ...it, offset: it.offset + 1 });
    return { records, assignment: this.assignment() };
  }

  taken() {
    let left = this.options.records_max ?? RECORDS_MAX;
    const found = [];
    for (const lot of this.lots) {
      const its = lot.records.splice(0, left);
      left -= its.length;
      if (its.length > 0) lot.resolveOffset(String(its.at(-1).offset));
      found.push(...its);
    }
    this.lots = this.lots.filter((lot) => lot.records.length > 0);
    return found;
  }

  assignment() {
    const places = Object.entries(this.owned).flatMap(([topic, its]) => its.map((it) => [topic, it]));
    if (this.starts === null) return places;
    return places.filter(([topic, partition]) => this.starts.has(place({ topic, partition })));
  }

  async seek({ topic, partition, offset }) {
    const position = { topic, partition, offset };
    this.go(position, await this.ends([position]));
    this.drop(position);
  }

  drop(position) {
    this.lots = this.lots.filter((lot) => place(lot) !== place(position));
    this.positions.delete(place(position));
  }

  pause({ partitions }) {
    this.consumer.pause(partitions.map(([topic, partition]) => ({ topic, partitions: [partition] })));
  }

  resume({ partitions }) {
    this.consumer.resume(partitions.map(([topic, partition]) => ({ topic, partitions: [partition] })));
  }

  async commit({ offsets }) {
    const wanted = offsets ?? [...this.positions.values()].map(({ topic, partition, offset }) => ({ topic, partition, offset, metadata: null }));
    await this.consumer.commitOffsets(wanted.map((it) => ({ ...it, offset: String(it.offset) })));
  }

  async committed({ partitions }) {
    const offsets = [];
    for (const [topic, partition] of partitions) {
      const [{ partitions: its }] = await this.admin.fetchOffsets({ groupId: this.options.group, topics: [topic] });
      const found = its.find((it) => it.partition === partition);
      offsets.push(committedTold(topic, partition, found));
    }
    return { offsets };
  }

  async offsets_at({ partitions, at }) {
    const offsets = [];
    for (const [topic, partition] of partitions) {
      offsets.push({ topic, partition, offset: await offsetAt(this.admin, topic, partition, at) });
    }
    return { offsets };
  }
}

function settings(options) {
  const chosen = {
    sessionTimeout: options.session_timeout_ms ?? (options.group ? null : OWN_SESSION_MS),
    heartbeatInterval: options.heartbeat_interval_ms ?? (options.group ? null : HEARTBEAT_MS),
    minBytes: options.fetch_bytes_min,
    maxWaitTimeInMs: options.fetch_wait_ms_max,
    maxBytesPerPartition: options.partition_bytes_max,
    partitionAssigners: options.assignor && [ASSIGNORS[options.assignor]],
  };
  const given = Object.entries(chosen).filter(([, value]) => value !== null && value !== undefined);
  return {
    groupId: options.group ?? `${options.client_id}-${randomUUID()}`,
    readUncommitted: options.isolation !== "read_committed",
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: RETRY_MS, maxRetryTime: RETRY_MS, retries: 20 },
    ...Object.fromEntries(given),
  };
}

function place({ topic, partition }) {
  return `${topic} ${partition}`;
}

function recordTold(topic, partition, { offset, timestamp, key, value, headers }) {
  return {
    topic,
    partition,
    offset: Number(offset),
    timestamp_ms: Number(timestamp),
    key: text(key),
    value: text(value),
    headers: Object.entries(headers ?? {}).flatMap(([name, its]) => [its].flat().map((it) => [name, text(it)])),
  };
}

export function committedTold(topic, partition, found) {
  const offset = Number(found?.offset ?? -1);
  if (offset < 0) return { topic, partition, offset: null, metadata: null };
  return { topic, partition, offset, metadata: found.metadata };
}

// Where no record is that late, the library names the end, which no record has.
export async function offsetAt(admin, topic, partition, at) {
  const ends = (await admin.fetchTopicOffsets(topic)).find((it) => it.partition === partition);
  if (at === "beginning") return Number(ends.low);
  if (at === "end") return Number(ends.high);
  const found = await admin.fetchTopicOffsetsByTimestamp(topic, at);
  const { offset } = found.find((it) => it.partition === partition);
  return offset === ends.high ? null : Number(offset);
}
