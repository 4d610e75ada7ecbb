//! Commands: what the admin process passes on, done and answered.

use std::os::fd::AsFd;

use flyball_sys::process;

use super::Master;
use super::children::Role;
use super::generations::GENERATIONS_MAX;
use crate::control::{self, Command, Reply};
use crate::registry;
use crate::settings::AcceptLimit;

impl Master {
    /// Takes one command from the admin process, which is not trusted, and answers it.
    pub(super) fn obey(&mut self) {
        let Some(commands) = &self.commands else { return };
        let Some(command) = control::receive(commands) else {
            // The process has gone, or talks nonsense; the next one brings a new pair.
            return self.stop_asking();
        };
        let done = match command {
            Command::Architecture(at) => self.switch(registry::ALL[at], GENERATIONS_MAX),
            Command::AcceptLimit(limit) => Ok(Reply::Done(self.set_accept_limit(limit))),
        };
        let reply = done.unwrap_or_else(Reply::Refused);
        eprintln!("flyball: {}", reply.text());
        let told = self.commands.as_ref().is_some_and(|pair| control::reply(pair, &reply).is_ok());
        if !told {
            // Whoever asks and does not listen has no business here.
            self.stop_asking();
        }
        self.refresh_admin();
    }

    /// The admin process gets no more answers: another takes its place.
    fn stop_asking(&mut self) {
        if let Some(commands) = self.commands.take() {
            self.mechanism.remove(commands.as_fd());
        }
        let admin = self.children.iter().find(|child| child.role == Role::Admin);
        if let Some(process) = admin.and_then(|child| child.process) {
            process::kill(process);
        }
    }

    fn set_accept_limit(&self, limit: AcceptLimit) -> String {
        let before = self.blocks.accept_limit();
        self.blocks.set_accept_limit(limit);
        let architecture = self.generation.architecture;
        let unused = match architecture.settings().contains(&"accept.limit") {
            true => String::new(),
            false => format!("; {} does not use it", architecture.name()),
        };
        format!("accept.limit is {limit}; it was {before}{unused}")
    }

    /// The admin process shows the accept queues of the sockets that it was forked with.
    fn refresh_admin(&self) {
        let known = self.server.listening.all().len();
        if self.blocks.set_sockets(known) != known {
            let admin = self.children.iter().find(|child| child.role == Role::Admin);
            if let Some(process) = admin.and_then(|child| child.process) {
                process::terminate(process);
            }
        }
    }
}
