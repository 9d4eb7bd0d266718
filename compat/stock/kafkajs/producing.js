// Producers of kafkajs.

import kafkajs from "kafkajs";
import { octets } from "./line.js";

const { CompressionTypes, Partitioners } = kafkajs;
const ACKS = { 0: 0, 1: 1, all: -1 };
const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};
const RETRY_MS = 200;

export class Producer {
  // Where each message went: an answer tells no more than the first offset of a partition.
  chosen = new Map();
  transaction = null;

  constructor(kafka, options) {
    this.options = options;
    this.producer = kafka.producer(this.settings());
  }

  settings() {
    const { idempotent, transactional_id, transaction_timeout_ms, delivery_timeout_ms } = this.options;
    return {
      createPartitioner: () => this.noting(partitioner(this.options.partitioner)),
      allowAutoTopicCreation: false,
      ...(idempotent || transactional_id ? { idempotent: true, maxInFlightRequests: 1 } : {}),
      ...(transactional_id ? { transactionalId: transactional_id } : {}),
      ...(transaction_timeout_ms ? { transactionTimeout: transaction_timeout_ms } : {}),
      ...(delivery_timeout_ms ? { retry: tries(delivery_timeout_ms) } : {}),
    };
  }

  noting(decide) {
    return (asked) => {
      const partition = asked.message.partition ?? decide(asked);
      this.chosen.set(asked.message, partition);
      return partition;
    };
  }

  async connect() {
    await this.producer.connect();
  }

  async close() {
    await this.producer.disconnect();
  }

  async produce({ records }, program) {
    this.chosen.clear();
    const messages = records.map(message);
    const byTopic = new Map(records.map((it) => [it.topic, []]));
    records.forEach((it, number) => byTopic.get(it.topic).push(messages[number]));
    try {
      const answers = await (this.transaction ?? this.producer).sendBatch({
        acks: ACKS[this.options.acks],
        compression: COMPRESSIONS[this.options.compression],
        topicMessages: [...byTopic].map(([topic, its]) => ({ topic, messages: its })),
      });
      return { written: this.written(records, messages, answers) };
    } catch (error) {
      console.error("produce", error);
      return { written: records.map(() => ({ error: program.told(error) })) };
    }
  }

  written(records, messages, answers) {
    const next = new Map();
    for (const { topicName, partition, baseOffset } of answers ?? []) {
      next.set(`${topicName} ${partition}`, Number(baseOffset));
    }
    return records.map(({ topic }, number) => {
      const partition = this.chosen.get(messages[number]);
      const offset = next.get(`${topic} ${partition}`) ?? null;
      if (offset !== null) next.set(`${topic} ${partition}`, offset + 1);
      return { topic, partition, offset };
    });
  }

  async begin() {
    this.transaction = await this.producer.transaction();
  }

  async send_offsets({ consumer, offsets }, program) {
    await this.transaction.sendOffsets({
      consumerGroupId: program.open.get(consumer).options.group,
      topics: offsets.map(({ topic, partition, offset, metadata }) => ({
        topic,
        partitions: [{ partition, offset: String(offset), metadata }],
      })),
    });
  }

  async commit_transaction() {
    await this.ended((it) => it.commit());
  }

  async abort_transaction() {
    await this.ended((it) => it.abort());
  }

  async ended(end) {
    const transaction = this.transaction;
    this.transaction = null;
    await end(transaction);
  }
}

function partitioner(name) {
  if (name === "last") {
    return ({ partitionMetadata }) => Math.max(...partitionMetadata.map((it) => it.partitionId));
  }
  return Partitioners[name === "java" ? "JavaCompatiblePartitioner" : "DefaultPartitioner"]();
}

// The library counts tries, not time.
function tries(deliveryTimeoutMs) {
  return {
    initialRetryTime: RETRY_MS,
    maxRetryTime: RETRY_MS,
    retries: Math.ceil(deliveryTimeoutMs / RETRY_MS),
  };
}

function message({ partition, key, value, headers, timestamp_ms }) {
  return {
    key: octets(key),
    value: octets(value),
    headers: headersOf(headers),
    ...(partition === null ? {} : { partition }),
    ...(timestamp_ms === null ? {} : { timestamp: String(timestamp_ms) }),
  };
}

// An object, with a list where a name comes more than once.
function headersOf(pairs) {
  const found = {};
  for (const [name, value] of pairs) {
    const its = octets(value);
    found[name] = name in found ? [found[name], its].flat() : its;
  }
  return found;
}
