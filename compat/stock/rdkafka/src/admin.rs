//! The admin client of rust-rdkafka.

use crate::line::{Answer, CALL, Failure, Options, nothing};
use pollster::block_on;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::bindings::rd_kafka_controllerid;
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use serde_json::{Value, json};
use std::time::Duration;

pub struct Admin {
    client: AdminClient<DefaultClientContext>,
    timeout: Duration,
}

impl Admin {
    pub fn open(options: &Options) -> Result<Self, Failure> {
        let timeout_ms = options.number("request_timeout_ms").map(|it| it as u64);
        Ok(Self {
            client: options.config().create()?,
            timeout: timeout_ms.map_or(CALL, Duration::from_millis),
        })
    }

    pub fn obey(&mut self, command: &str, options: &Options) -> Answer {
        match command {
            "create_topics" => self.create_topics(options)?,
            "delete_topics" => self.delete_topics(options)?,
            "list_topics" => return self.list_topics(),
            "describe_topics" => return self.describe_topics(options),
            "create_partitions" => self.create_partitions(options)?,
            "describe_configs" => return self.describe_configs(options),
            "replace_configs" => self.replace_configs(options)?,
            "delete_records" => return self.delete_records(options),
            "describe_cluster" => return self.describe_cluster(),
            "list_groups" => return self.list_groups(),
            "describe_group" => return self.describe_group(options),
            "delete_group" => self.delete_group(options)?,
            _ => return Err(Failure::unsupported(command)),
        }
        Ok(nothing())
    }

    fn how(&self) -> AdminOptions {
        AdminOptions::new()
            .request_timeout(Some(self.timeout))
            .operation_timeout(Some(self.timeout))
    }

    // --- topics

    fn create_topics(&self, options: &Options) -> Result<(), Failure> {
        let wanted: Vec<_> = options.list("topics").iter().map(new_topic).collect();
        let how = self.how().validate_only(options.is("validate_only"));
        each(block_on(self.client.create_topics(&wanted, &how))?)
    }

    fn delete_topics(&self, options: &Options) -> Result<(), Failure> {
        let names: Vec<_> = options
            .list("topics")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        each(block_on(self.client.delete_topics(&names, &self.how()))?)
    }

    fn list_topics(&self) -> Answer {
        let found = self.client.inner().fetch_metadata(None, self.timeout)?;
        let names: Vec<_> = found.topics().iter().map(|it| it.name()).collect();
        Ok(json!({"topics": names}))
    }

    fn describe_topics(&self, options: &Options) -> Answer {
        let mut topics = Vec::new();
        for name in options.list("topics").iter().filter_map(Value::as_str) {
            let found = self
                .client
                .inner()
                .fetch_metadata(Some(name), self.timeout)?;
            for topic in found.topics() {
                if let Some(error) = topic.error() {
                    return Err(Failure::of_code(error.into(), name));
                }
                let partitions: Vec<_> = topic
                    .partitions()
                    .iter()
                    .map(|it| {
                        json!({
                            "partition": it.id(),
                            "leader": it.leader(),
                            "replicas": it.replicas(),
                            "in_sync": it.isr(),
                        })
                    })
                    .collect();
                topics.push(json!({"name": topic.name(), "partitions": partitions}));
            }
        }
        Ok(json!({"topics": topics}))
    }

    fn create_partitions(&self, options: &Options) -> Result<(), Failure> {
        let total = options.number("total").expect("a number") as usize;
        let wanted = [NewPartitions::new(options.text("topic"), total)];
        each(block_on(
            self.client.create_partitions(&wanted, &self.how()),
        )?)
    }

    // --- configurations

    fn describe_configs(&self, options: &Options) -> Answer {
        let asked = [resource(options)];
        let mut configs = json!({});
        for found in block_on(self.client.describe_configs(&asked, &self.how()))? {
            let found = found.map_err(|code| Failure::of_code(code, options.text("name")))?;
            for it in found.entries {
                configs[it.name] = json!({"value": it.value, "is_default": it.is_default});
            }
        }
        Ok(json!({"configs": configs}))
    }

    fn replace_configs(&self, options: &Options) -> Result<(), Failure> {
        let mut wanted = AlterConfig::new(resource(options));
        for (key, value) in options
            .get("set")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            wanted = wanted.set(key, value.as_str().expect("a value"));
        }
        for told in block_on(self.client.alter_configs(&[wanted], &self.how()))? {
            told.map_err(|(_, code)| Failure::of_code(code, options.text("name")))?;
        }
        Ok(())
    }

    // --- records

    #[cfg(feature = "older")]
    fn delete_records(&self, _: &Options) -> Answer {
        Err(Failure::unsupported("delete_records"))
    }

    #[cfg(not(feature = "older"))]
    fn delete_records(&self, options: &Options) -> Answer {
        use crate::line::offset_told;
        use rdkafka::{Offset, TopicPartitionList};

        let mut before = TopicPartitionList::new();
        let partition = options.number("partition").expect("a partition") as i32;
        let offset = Offset::Offset(options.number("before").expect("an offset"));
        before.add_partition_offset(options.text("topic"), partition, offset)?;
        let found = block_on(self.client.delete_records(&before, &self.how()))?;
        let it = &found.elements()[0];
        it.error()?;
        Ok(
            json!({"low_watermark": offset_told(it.topic(), partition, it.offset(), None)["offset"]}),
        )
    }

    // --- the cluster

    fn describe_cluster(&self) -> Answer {
        let client = self.client.inner();
        let found = client.fetch_metadata(None, self.timeout)?;
        let brokers: Vec<_> = found
            .brokers()
            .iter()
            .map(|it| {
                json!({
                    "id": it.id(), "host": it.host(), "port": it.port(),
                })
            })
            .collect();
        let timeout_ms = self.timeout.as_millis() as i32;
        // SAFETY: the client lives as long as the call. The crate has no safe one of its own.
        let controller = unsafe { rd_kafka_controllerid(client.native_ptr(), timeout_ms) };
        let cluster_id = client.fetch_cluster_id(self.timeout);
        Ok(json!({"cluster_id": cluster_id, "controller": controller, "brokers": brokers}))
    }

    // --- groups

    fn list_groups(&self) -> Answer {
        let found = self.client.inner().fetch_group_list(None, self.timeout)?;
        let names: Vec<_> = found.groups().iter().map(|it| it.name()).collect();
        Ok(json!({"groups": names}))
    }

    fn describe_group(&self, options: &Options) -> Answer {
        let name = options.text("group");
        let found = self
            .client
            .inner()
            .fetch_group_list(Some(name), self.timeout)?;
        let Some(group) = found.groups().first() else {
            return Err(Failure::of_code(RDKafkaErrorCode::GroupIdNotFound, name));
        };
        let members: Vec<_> = group
            .members()
            .iter()
            .map(|it| {
                json!({
                    "client_id": it.client_id(), "instance_id": null, "assignment": null,
                })
            })
            .collect();
        Ok(json!({"state": group.state(), "members": members}))
    }

    fn delete_group(&self, options: &Options) -> Result<(), Failure> {
        each(block_on(
            self.client
                .delete_groups(&[options.text("group")], &self.how()),
        )?)
    }
}

fn new_topic(value: &Value) -> NewTopic<'_> {
    let number = |name: &str| value[name].as_i64().expect("a number") as i32;
    let replicas = TopicReplication::Fixed(number("replicas"));
    let mut topic = NewTopic::new(
        value["name"].as_str().expect("a name"),
        number("partitions"),
        replicas,
    );
    for (key, value) in value["configs"].as_object().into_iter().flatten() {
        topic = topic.set(key, value.as_str().expect("a value"));
    }
    topic
}

fn resource<'a>(options: &Options<'a>) -> ResourceSpecifier<'a> {
    let name = options.text("name");
    match options.text("kind") {
        "broker" => ResourceSpecifier::Broker(name.parse().expect("a node's number")),
        _ => ResourceSpecifier::Topic(name),
    }
}

/// The first error of those told for single topics or groups.
fn each(told: Vec<Result<String, (String, RDKafkaErrorCode)>>) -> Result<(), Failure> {
    for it in told {
        it.map_err(|(name, code)| Failure::of_code(code, format!("{name}: {code}")))?;
    }
    Ok(())
}
