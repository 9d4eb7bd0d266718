//! Producers of rust-rdkafka.

use crate::line::{Answer, CALL, Failure, Options, behind_fatal, nothing, octets};
use rdkafka::client::ClientContext;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Message, OwnedHeaders};
use rdkafka::producer::{
    BaseProducer, BaseRecord, DeliveryResult, Partitioner, Producer as _, ProducerContext,
    PurgeConfig,
};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{TopicPartitionList, config::ClientConfig};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

const FLUSH: Duration = Duration::from_secs(30);
const A_MOMENT: Duration = Duration::from_millis(10);

pub struct Producer(BaseProducer<Deliveries, Last>);

/// Notes what came of each record, under its number.
struct Deliveries {
    told: Mutex<HashMap<usize, Value>>,
    partitioner: Option<Last>,
}

impl ClientContext for Deliveries {}

impl ProducerContext<Last> for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let told = match result {
            Ok(it) => {
                json!({"topic": it.topic(), "partition": it.partition(), "offset": it.offset()})
            }
            Err((error, _)) => json!({"error": Failure::from(error.clone()).told()}),
        };
        self.told.lock().expect("the notes").insert(number, told);
    }

    fn get_custom_partitioner(&self) -> Option<&Last> {
        self.partitioner.as_ref()
    }
}

/// The greatest partition always.
struct Last;

impl Partitioner for Last {
    fn partition(&self, _: &str, _: Option<&[u8]>, count: i32, _: impl Fn(i32) -> bool) -> i32 {
        count - 1
    }
}

impl Producer {
    pub fn open(options: &Options) -> Result<Self, Failure> {
        let partitioner = (options.text("partitioner") == "last").then_some(Last);
        let context = Deliveries {
            told: Mutex::default(),
            partitioner,
        };
        let producer: BaseProducer<_, Last> = config(options).create_with_context(context)?;
        if options.get("transactional_id").is_some() {
            producer.init_transactions(CALL)?;
        }
        Ok(Self(producer))
    }

    /// Sends what it has, and closes.
    pub fn shut(self) -> Result<(), Failure> {
        Ok(self.0.flush(FLUSH)?)
    }

    /// Closes quickly, whether or not a broker is there.
    pub fn let_go(self) {
        self.0.purge(PurgeConfig::default().queue().inflight());
        let _ = self.0.flush(Duration::from_secs(1));
    }

    pub fn obey(&mut self, command: &str, options: &Options) -> Answer {
        let client = &self.0;
        let done = match command {
            "produce" => return Ok(json!({"written": self.produce(options.list("records"))?})),
            "begin" => client.begin_transaction(),
            "commit_transaction" => client.commit_transaction(CALL),
            "abort_transaction" => client.abort_transaction(CALL),
            _ => return Err(Failure::unsupported(command)),
        };
        done.map(|()| nothing())
            .map_err(|error| behind_fatal(client.client(), error))
    }

    pub fn send_offsets(
        &self,
        offsets: &TopicPartitionList,
        group: &ConsumerGroupMetadata,
    ) -> Result<(), Failure> {
        Ok(self.0.send_offsets_to_transaction(offsets, group, CALL)?)
    }

    fn produce(&self, rows: &[Value]) -> Result<Vec<Value>, Failure> {
        let mut failed = HashMap::new();
        for (number, row) in rows.iter().enumerate() {
            if let Err(failure) = self.send(number, row) {
                failed.insert(number, json!({"error": failure.told()}));
            }
        }
        self.0.flush(FLUSH)?;
        let mut told = std::mem::take(&mut *self.0.context().told.lock().expect("the notes"));
        told.extend(failed);
        Ok((0..rows.len())
            .map(|it| told.remove(&it).unwrap_or_default())
            .collect())
    }

    fn send(&self, number: usize, row: &Value) -> Result<(), Failure> {
        let (key, value) = (octets(&row["key"]), octets(&row["value"]));
        let mut record = record(number, row, key.as_deref(), value.as_deref());
        loop {
            match self.0.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    self.0.poll(A_MOMENT);
                    record = back;
                }
                Err((error, _)) => return Err(behind_fatal(self.0.client(), error)),
            }
        }
    }
}

fn record<'a>(
    number: usize,
    row: &'a Value,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
) -> BaseRecord<'a, [u8], [u8], usize> {
    let topic = row["topic"].as_str().expect("a topic");
    let mut record = BaseRecord::with_opaque_to(topic, number);
    if let Some(partition) = row["partition"].as_i64() {
        record = record.partition(partition as i32);
    }
    if let Some(timestamp_ms) = row["timestamp_ms"].as_i64() {
        record = record.timestamp(timestamp_ms);
    }
    record.key = key;
    record.payload = value;
    record.headers(headers(
        row["headers"].as_array().map_or(&[], Vec::as_slice),
    ))
}

fn headers(pairs: &[Value]) -> OwnedHeaders {
    pairs.iter().fold(OwnedHeaders::new(), |headers, pair| {
        let value = octets(&pair[1]);
        let key = pair[0].as_str().expect("a name");
        headers.insert(Header {
            key,
            value: value.as_ref(),
        })
    })
}

fn config(options: &Options) -> ClientConfig {
    let mut config = options.config();
    options.set(
        &mut config,
        &[
            ("acks", "acks"),
            ("compression.type", "compression"),
            ("enable.idempotence", "idempotent"),
            ("transactional.id", "transactional_id"),
            ("transaction.timeout.ms", "transaction_timeout_ms"),
            ("linger.ms", "linger_ms"),
            ("batch.size", "batch_bytes_max"),
            ("message.max.bytes", "request_bytes_max"),
            ("request.timeout.ms", "request_timeout_ms"),
        ],
    );
    if let Some(delivery_timeout_ms) = options.number("delivery_timeout_ms") {
        // No record may take longer than its transaction.
        let longest = options.number("transaction_timeout_ms").unwrap_or(i64::MAX);
        config.set(
            "message.timeout.ms",
            delivery_timeout_ms.min(longest).to_string(),
        );
    }
    if options.text("partitioner") == "java" {
        config.set("partitioner", "murmur2_random");
    }
    config
}
