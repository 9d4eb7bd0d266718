//! Consumers of rust-rdkafka.

use crate::line::{
    Answer, CALL, Failure, Options, nothing, offset, offset_told, place, positions, text_of,
};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::process;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const RECORDS_MAX: i64 = 500;

pub struct Consumer {
    client: BaseConsumer,
    records_max: usize,
    /// Behind the last record that polls have handed out, for each partition.
    behind: HashMap<(String, i32), i64>,
}

impl Consumer {
    pub fn open(options: &Options) -> Result<Self, Failure> {
        Ok(Self {
            client: config(options).create()?,
            records_max: options.number("records_max").unwrap_or(RECORDS_MAX) as usize,
            behind: HashMap::new(),
        })
    }

    /// Who it is in its group, for a producer that adds offsets to a transaction.
    pub fn group(&self) -> Result<ConsumerGroupMetadata, Failure> {
        self.client
            .group_metadata()
            .ok_or_else(|| Failure::unsupported("send_offsets"))
    }

    pub fn obey(&mut self, command: &str, options: &Options) -> Answer {
        match command {
            "subscribe" => self.subscribe(options)?,
            "assign" => self
                .client
                .assign(&positions(options.list("partitions"))?)?,
            "poll" => return self.poll(options),
            "seek" => self.seek(options)?,
            "position" => return self.position(options),
            "pause" => self.client.pause(&positions(options.list("partitions"))?)?,
            "resume" => self
                .client
                .resume(&positions(options.list("partitions"))?)?,
            "commit" => self.commit(options)?,
            "committed" => return self.committed(options),
            "offsets_at" => return self.offsets_at(options),
            _ => return Err(Failure::unsupported(command)),
        }
        Ok(nothing())
    }

    fn subscribe(&self, options: &Options) -> Result<(), Failure> {
        let topics: Vec<_> = options
            .list("topics")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        Ok(self.client.subscribe(&topics)?)
    }

    fn poll(&mut self, options: &Options) -> Answer {
        let mut wait = Duration::from_millis(options.number("timeout_ms").unwrap_or(0) as u64);
        let mut records = Vec::new();
        while records.len() < self.records_max {
            let Some(found) = self.client.poll(wait) else {
                break;
            };
            let message = found?;
            let place = (message.topic().to_owned(), message.partition());
            self.behind.insert(place, message.offset() + 1);
            records.push(told(&message));
            wait = Duration::ZERO;
        }
        let owned = self.client.assignment()?;
        let assignment: Vec<_> = owned
            .elements()
            .iter()
            .map(|it| json!([it.topic(), it.partition()]))
            .collect();
        Ok(json!({"records": records, "assignment": assignment}))
    }

    fn seek(&mut self, options: &Options) -> Result<(), Failure> {
        let (topic, partition) = its_place(options);
        let to = offset(options.get("offset").expect("an offset"));
        self.behind.remove(&(topic.to_owned(), partition));
        Ok(self.client.seek(topic, partition, to, CALL)?)
    }

    fn position(&self, options: &Options) -> Answer {
        let (topic, partition) = its_place(options);
        let found = self.client.position()?;
        let offset = found
            .find_partition(topic, partition)
            .map_or(Offset::Invalid, |it| it.offset());
        Ok(json!({"offset": offset_told(topic, partition, offset, None)["offset"]}))
    }

    fn commit(&self, options: &Options) -> Result<(), Failure> {
        let mut offsets = positions(options.list("offsets"))?;
        if options.get("offsets").is_none() {
            for ((topic, partition), offset) in &self.behind {
                offsets.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
            }
        }
        Ok(self.client.commit(&offsets, CommitMode::Sync)?)
    }

    fn committed(&self, options: &Options) -> Answer {
        let asked = positions(options.list("partitions"))?;
        let found = self.client.committed_offsets(asked, CALL)?;
        Ok(json!({"offsets": offsets_in(&found)?}))
    }

    fn offsets_at(&self, options: &Options) -> Answer {
        let mut asked = TopicPartitionList::new();
        for value in options.list("partitions") {
            let (topic, partition) = place(value);
            let at = match options.text("at") {
                "beginning" => self.client.fetch_watermarks(topic, partition, CALL)?.0,
                "end" => self.client.fetch_watermarks(topic, partition, CALL)?.1,
                _ => options.number("at").expect("a time"),
            };
            asked.add_partition_offset(topic, partition, Offset::Offset(at))?;
        }
        if options.text("at").is_empty() {
            asked = self.client.offsets_for_times(asked, CALL)?;
        }
        Ok(json!({"offsets": offsets_in(&asked)?}))
    }
}

fn its_place<'a>(options: &Options<'a>) -> (&'a str, i32) {
    (
        options.text("topic"),
        options.number("partition").expect("a partition") as i32,
    )
}

fn offsets_in(found: &TopicPartitionList) -> Result<Vec<Value>, KafkaError> {
    let mut told = Vec::new();
    for it in found.elements() {
        it.error()?;
        told.push(offset_told(
            it.topic(),
            it.partition(),
            it.offset(),
            Some(it.metadata()),
        ));
    }
    Ok(told)
}

fn told(message: &BorrowedMessage<'_>) -> Value {
    let mut headers = Vec::new();
    for it in message.headers().iter().flat_map(|its| its.iter()) {
        headers.push(json!([it.key, text_of(it.value)]));
    }
    json!({
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp().to_millis(),
        "key": text_of(message.key()),
        "value": text_of(message.payload()),
        "headers": headers,
    })
}

fn config(options: &Options) -> ClientConfig {
    let mut config = options.config();
    config
        .set("enable.auto.commit", "false")
        .set("group.id", group_of_its_own());
    options.set(
        &mut config,
        &[
            ("group.id", "group"),
            ("group.instance.id", "instance_id"),
            ("isolation.level", "isolation"),
            ("session.timeout.ms", "session_timeout_ms"),
            ("heartbeat.interval.ms", "heartbeat_interval_ms"),
            ("fetch.min.bytes", "fetch_bytes_min"),
            ("fetch.wait.max.ms", "fetch_wait_ms_max"),
            ("max.partition.fetch.bytes", "partition_bytes_max"),
        ],
    );
    let reset = match options.text("reset") {
        "none" => "error",
        other => other,
    };
    config.set("auto.offset.reset", reset);
    if options.text("protocol") == "consumer" {
        config.set("group.protocol", "consumer");
        options.set(&mut config, &[("group.remote.assignor", "assignor")]);
    } else {
        options.set(
            &mut config,
            &[("partition.assignment.strategy", "assignor")],
        );
    }
    config
}

/// The library wants one even of those who share nothing.
fn group_of_its_own() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a time after 1970");
    format!("compat-{}-{}", process::id(), now.as_nanos())
}
