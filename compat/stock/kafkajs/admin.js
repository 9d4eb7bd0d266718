// The admin client of kafkajs.

import kafkajs from "kafkajs";
import { committedTold, offsetAt } from "./consuming.js";
import { Refused } from "./line.js";

const { AssignerProtocol, ConfigResourceTypes } = kafkajs;
const KINDS = { topic: ConfigResourceTypes.TOPIC, broker: ConfigResourceTypes.BROKER };

export class Administering {
  constructor(kafka) {
    this.admin = kafka.admin();
  }

  async connect() {
    await this.admin.connect();
  }

  async close() {
    await this.admin.disconnect();
  }

  // --- topics

  // Of a topic that is there already, the library tells with `false`.
  async create_topics({ topics, validate_only }) {
    const wanted = topics.map(({ name, partitions, replicas, configs }) => ({
      topic: name,
      numPartitions: partitions,
      replicationFactor: replicas,
      configEntries: Object.entries(configs).map(([key, value]) => ({ name: key, value })),
    }));
    const made = await this.admin.createTopics({
      topics: wanted,
      validateOnly: Boolean(validate_only),
      waitForLeaders: !validate_only,
    });
    if (!made) throw new Refused("TOPIC_ALREADY_EXISTS", "createTopics answered false");
  }

  async delete_topics({ topics }) {
    await this.admin.deleteTopics({ topics });
  }

  async list_topics() {
    return { topics: await this.admin.listTopics() };
  }

  async describe_topics({ topics }) {
    const found = await this.admin.fetchTopicMetadata({ topics });
    return {
      topics: found.topics.map(({ name, partitions }) => ({
        name,
        partitions: partitions.map(({ partitionId, leader, replicas, isr }) => ({
          partition: partitionId,
          leader,
          replicas,
          in_sync: isr,
        })),
      })),
    };
  }

  async create_partitions({ topic, total }) {
    await this.admin.createPartitions({ topicPartitions: [{ topic, count: total }] });
  }

  // --- configurations

  async describe_configs({ kind, name }) {
    const resources = [{ type: KINDS[kind], name }];
    const { resources: [found] } = await this.admin.describeConfigs({ resources, includeSynonyms: false });
    const told = found.configEntries.map((it) => [
      it.configName,
      { value: it.configValue, is_default: it.isDefault },
    ]);
    return { configs: Object.fromEntries(told) };
  }

  async replace_configs({ kind, name, set }) {
    const configEntries = Object.entries(set).map(([key, value]) => ({ name: key, value }));
    await this.admin.alterConfigs({ validateOnly: false, resources: [{ type: KINDS[kind], name, configEntries }] });
  }

  // --- records

  // The library wants to have heard of the topic, and tells no low watermark; it is asked for.
  async delete_records({ topic, partition, before }) {
    await this.admin.fetchTopicOffsets(topic);
    await this.admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] });
    return { low_watermark: await offsetAt(this.admin, topic, partition, "beginning") };
  }

  async list_offsets({ topic, partition, at }) {
    return { offset: await offsetAt(this.admin, topic, partition, at) };
  }

  // --- the cluster

  async describe_cluster() {
    const { brokers, controller, clusterId } = await this.admin.describeCluster();
    return {
      cluster_id: clusterId,
      controller,
      brokers: brokers.map(({ nodeId, host, port }) => ({ id: nodeId, host, port })),
    };
  }

  // --- groups

  async list_groups() {
    const { groups } = await this.admin.listGroups();
    return { groups: groups.map((it) => it.groupId) };
  }

  async describe_group({ group }) {
    const { groups: [found] } = await this.admin.describeGroups([group]);
    if (found.errorCode) throw new Refused(found.errorCode);
    const members = found.members.map(({ clientId, memberAssignment }) => ({
      client_id: clientId,
      instance_id: null,
      assignment: assigned(memberAssignment),
    }));
    return { state: found.state, members };
  }

  async group_offsets({ group }) {
    const found = await this.admin.fetchOffsets({ groupId: group });
    const offsets = found.flatMap(({ topic, partitions }) =>
      partitions.map((it) => committedTold(topic, it.partition, it)),
    );
    return { offsets };
  }

  async alter_group_offsets({ group, offsets }) {
    for (const { topic, partition, offset } of offsets) {
      const partitions = [{ partition, offset: String(offset) }];
      await this.admin.setOffsets({ groupId: group, topic, partitions });
    }
  }

  async delete_group({ group }) {
    await this.admin.deleteGroups([group]);
  }
}

function assigned(bytes) {
  if (bytes.length === 0) return [];
  const { assignment } = AssignerProtocol.MemberAssignment.decode(bytes);
  return Object.entries(assignment).flatMap(([topic, its]) => its.map((it) => [topic, it]));
}
