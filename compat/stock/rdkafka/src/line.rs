//! The line protocol of compat/README.md.

use crate::Program;
use crate::admin::Admin;
use crate::consuming::Consumer;
use crate::producing::Producer;
use base64::prelude::{BASE64_STANDARD, Engine};
use rdkafka::client::{Client, ClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Map, Value, json};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Duration;

/// How long the library may take for a single call.
pub const CALL: Duration = Duration::from_secs(15);

pub type Answer = Result<Value, Failure>;

/// What a name of the suite stands for.
pub enum Opened {
    Producer(Producer),
    Consumer(Consumer),
    Admin(Admin),
}

/// Answers one line after the other until there are no more.
pub fn run(program: &mut Program) {
    let mut answers = stdout().lock();
    for line in stdin().lock().lines() {
        let command: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let options = Options(command.as_object().expect("an object"));
        let mut answer = match program.obey(options.text("do"), &options) {
            Ok(found) => json!({"ok": found}),
            Err(failure) => {
                eprintln!("{}: {}", options.text("do"), failure.text);
                json!({"error": failure.told()})
            }
        };
        answer["id"] = command["id"].clone();
        writeln!(answers, "{answer}").expect("somebody who listens");
        answers.flush().expect("somebody who listens");
    }
    program.reset();
}

pub fn nothing() -> Value {
    json!({})
}

/// The version of the crate, which the manifest pins.
pub fn hello() -> Value {
    let manifest = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let pinned = manifest.lines().find(|it| it.starts_with("rdkafka = "));
    let version = pinned.and_then(|it| it.split('"').nth(1)).map(|it| it.trim_start_matches('='));
    json!({"client": "rdkafka", "version": version})
}

/// The options of a command; those that are null count as absent.
pub struct Options<'a>(pub &'a Map<String, Value>);

impl<'a> Options<'a> {
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|it| !it.is_null())
    }

    /// A string, empty if there is none.
    pub fn text(&self, name: &str) -> &'a str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(Value::as_i64)
    }

    pub fn is(&self, name: &str) -> bool {
        self.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn list(&self, name: &str) -> &'a [Value] {
        self.get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// What clients of every kind are configured with.
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.text("bootstrap"))
            .set("client.id", self.text("client_id"))
            .set("reconnect.backoff.max.ms", "500");
        config
    }

    /// Sets properties of the library to options of other names, where they are given.
    pub fn set(&self, config: &mut ClientConfig, names: &[(&str, &str)]) {
        for (property, option) in names {
            match self.get(option) {
                Some(Value::String(text)) => config.set(*property, text),
                Some(other) => config.set(*property, other.to_string()),
                None => config,
            };
        }
    }
}

/// An error that the library told.
#[derive(Debug)]
pub struct Failure {
    pub code: Value,
    pub text: String,
}

impl Failure {
    pub fn unsupported(command: &str) -> Self {
        Self {
            code: json!("UNSUPPORTED"),
            text: command.to_owned(),
        }
    }

    pub fn of_code(code: RDKafkaErrorCode, text: impl ToString) -> Self {
        let number = code as i32;
        let code = match code {
            RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::MessageTimedOut => {
                json!("TIMED_OUT")
            }
            RDKafkaErrorCode::Fenced => json!("FENCED"),
            _ if number > 0 => json!(number),
            _ => json!(local_name(code)),
        };
        Self {
            code,
            text: text.to_string(),
        }
    }

    pub fn told(&self) -> Value {
        json!({"code": self.code, "text": self.text})
    }
}

impl From<KafkaError> for Failure {
    fn from(error: KafkaError) -> Self {
        let code = match &error {
            KafkaError::Transaction(inner) => Some(inner.code()),
            other => other.rdkafka_error_code(),
        };
        match code {
            Some(code) => Self::of_code(code, &error),
            None => Self {
                code: json!("CLIENT"),
                text: error.to_string(),
            },
        }
    }
}

/// The name of an error that no broker told, in the spelling of librdkafka.
fn local_name(code: RDKafkaErrorCode) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// An error, or what stands behind it where the library says no more than that all is over.
pub fn behind_fatal<C: ClientContext>(client: &Client<C>, error: KafkaError) -> Failure {
    match client.fatal_error() {
        Some((code, text)) => Failure::of_code(code, text),
        None => error.into(),
    }
}

pub fn octets(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    Some(BASE64_STANDARD.decode(text).expect("base64"))
}

pub fn text_of(found: Option<&[u8]>) -> Value {
    found.map_or(Value::Null, |it| json!(BASE64_STANDARD.encode(it)))
}

/// Topic and partition, of a list or of an object.
pub fn place(value: &Value) -> (&str, i32) {
    let (topic, partition) = match value {
        Value::Array(pair) => (&pair[0], &pair[1]),
        _ => (&value["topic"], &value["partition"]),
    };
    (
        topic.as_str().expect("a topic"),
        partition.as_i64().expect("a partition") as i32,
    )
}

/// Places, with offset and metadata where they are given.
pub fn positions(values: &[Value]) -> KafkaResult<TopicPartitionList> {
    let mut found = TopicPartitionList::new();
    for value in values {
        let (topic, partition) = place(value);
        let mut it = found.add_partition(topic, partition);
        if let Some(given) = value.get("offset") {
            it.set_offset(offset(given))?;
        }
        if let Some(metadata) = value.get("metadata").and_then(Value::as_str) {
            it.set_metadata(metadata);
        }
    }
    Ok(found)
}

pub fn offset(value: &Value) -> Offset {
    match value.as_str() {
        Some("beginning") => Offset::Beginning,
        Some("end") => Offset::End,
        Some(_) => Offset::Stored,
        None => Offset::Offset(value.as_i64().expect("an offset")),
    }
}

/// An offset, none where the library has another word for it.
pub fn offset_told(topic: &str, partition: i32, offset: Offset, metadata: Option<&str>) -> Value {
    let (offset, metadata) = match offset {
        Offset::Offset(number) => (json!(number), json!(metadata)),
        _ => (Value::Null, Value::Null),
    };
    json!({"topic": topic, "partition": partition, "offset": offset, "metadata": metadata})
}
