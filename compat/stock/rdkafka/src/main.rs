//! rust-rdkafka as a client of the suite.

mod admin;
mod consuming;
mod line;
mod producing;

use admin::Admin;
use consuming::Consumer;
use line::{Answer, Failure, Opened, Options};
use producing::Producer;
use std::collections::HashMap;

fn main() {
    line::run(&mut Program::default());
}

/// What has been opened, under the names that the suite gave.
#[derive(Default)]
pub struct Program {
    open: HashMap<String, Opened>,
}

impl Program {
    /// Does what a command says.
    pub fn obey(&mut self, command: &str, options: &Options) -> Answer {
        match command {
            "hello" => return Ok(line::hello()),
            "reset" => self.reset(),
            "close" => match self.open.remove(options.text("on")) {
                Some(Opened::Producer(it)) => it.shut()?,
                other => drop(other),
            },
            "open_producer" => self.keep(options, Opened::Producer(Producer::open(options)?)),
            "open_consumer" => self.keep(options, Opened::Consumer(Consumer::open(options)?)),
            "open_admin" => self.keep(options, Opened::Admin(Admin::open(options)?)),
            "send_offsets" => self.send_offsets(options)?,
            _ => return self.pass_on(command, options),
        }
        Ok(line::nothing())
    }

    /// Lets everything go, quickly.
    pub fn reset(&mut self) {
        for (_, it) in self.open.drain() {
            if let Opened::Producer(producer) = it {
                producer.let_go();
            }
        }
    }

    fn keep(&mut self, options: &Options, opened: Opened) {
        self.open.insert(options.text("on").to_owned(), opened);
    }

    fn send_offsets(&mut self, options: &Options) -> Result<(), Failure> {
        let found = (
            self.open.get(options.text("on")),
            self.open.get(options.text("consumer")),
        );
        let (Some(Opened::Producer(producer)), Some(Opened::Consumer(consumer))) = found else {
            return Err(Failure::unsupported("send_offsets"));
        };
        producer.send_offsets(
            &line::positions(options.list("offsets"))?,
            &consumer.group()?,
        )
    }

    fn pass_on(&mut self, command: &str, options: &Options) -> Answer {
        match self.open.get_mut(options.text("on")) {
            Some(Opened::Producer(it)) => it.obey(command, options),
            Some(Opened::Consumer(it)) => it.obey(command, options),
            Some(Opened::Admin(it)) => it.obey(command, options),
            None => Err(Failure::unsupported(command)),
        }
    }
}
