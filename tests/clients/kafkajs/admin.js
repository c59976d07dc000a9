// What the admin client asks.
"use strict";

const { ConfigResourceTypes } = require("kafkajs");
const { admin, freshName, kafka, makeTopic, read, until } = require("./setting");
const { withProducer } = require("./records");
const { join } = require("./groups");

async function topics() {
  const topic = await makeTopic(2);
  const again = await admin.createTopics({ topics: [{ topic }] });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
  const grown = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 4;
  await until(grown, "the topic has grown");
  const listed = (await admin.listTopics()).includes(topic);
  await admin.deleteTopics({ topics: [topic] });
  await until(async () => !(await admin.listTopics()).includes(topic), "the topic is gone");
  return { again, listed };
}

async function configuration() {
  const topic = await makeTopic();
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const configEntries = [{ name: "retention.ms", value: "120000" }];
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries }] });
  const retention = async () => {
    const answer = await admin.describeConfigs({ includeSynonyms: true, resources: [resource] });
    return answer.resources[0].configEntries.find((entry) => entry.configName === "retention.ms").configValue;
  };
  await until(async () => (await retention()) === "120000", "the change is described");
  return { retention: await retention() };
}

async function records() {
  const topic = await makeTopic();
  const messages = Array.from({ length: 10 }, (_, number) => ({ value: String(number) }));
  await withProducer({}, (producer) => producer.send({ topic, messages }));
  // The deletion goes to the leaders that this client already knows; asking for offsets makes it learn them.
  const alone = kafka.admin();
  await alone.connect();
  await alone.fetchTopicOffsets(topic);
  await alone.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "4" }] });
  await alone.disconnect();
  const [places] = await admin.fetchTopicOffsets(topic);
  return { places, left: (await read(topic, 6)).map((message) => message.offset) };
}

async function groups() {
  const [topic, groupId] = [await makeTopic(2), freshName("group")];
  const owned = {};
  const consumer = await join(groupId, topic, owned);
  await until(() => owned.partitions.length === 2, "the member owns all");
  const [stable] = (await admin.describeGroups([groupId])).groups;
  const listed = (await admin.listGroups()).groups.some((group) => group.groupId === groupId);
  await consumer.disconnect();
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "5" }] });
  const [set] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const [empty] = (await admin.describeGroups([groupId])).groups;
  await admin.deleteGroups([groupId]);
  const left = (await admin.listGroups()).groups.some((group) => group.groupId === groupId);
  return {
    stable: stable.state,
    members: stable.members.length,
    listed,
    offsets: set.partitions.map(({ partition, offset }) => [partition, offset]).sort(),
    empty: empty.state,
    left,
  };
}

async function cluster() {
  const { brokers, clusterId, controller } = await admin.describeCluster();
  return { addresses: brokers.map(({ host, port }) => `${host}:${port}`), clusterId, controller: controller !== null };
}

module.exports = { topics, configuration, records, groups, cluster };
