//! Commands: what the admin process passes on, done and answered.

use flyball_acme::messages::ToAgent;
use std::io;
use std::os::fd::AsFd;

use flyball_arch::end::End;
use flyball_arch::restart::Restart;
use flyball_sys::clock::monotonic_ms;
use flyball_sys::error_log::{self, Level};
use flyball_sys::{process, say};

use super::Master;
use super::children::{Child, Role};
use crate::control::{self, Asker, Command, Received, Reply};

impl Master {
    /// Takes one command from the admin process, which is not trusted, and answers it.
    pub(super) fn obey(&mut self) {
        let Some(commands) = &self.ways.commands else { return };
        let request = match control::receive(commands) {
            Received::Asked(request) if request.is_over() => return,
            Received::Asked(request) => request,
            Received::Nothing => return,
            // The process has gone; the next one brings a new pair.
            Received::End => return self.stop_asking(),
        };
        let mut is_question = false;
        let asker = request.asker();
        let whose = &asker.whose;
        say!(Level::Debug, "{whose} asks: {:?}", request.command);
        let done = match request.command {
            Command::Upgrade => match self.upgrade(Some(asker.clone())) {
                // Answered when it is seen how it ends.
                Ok(()) => {
                    return error_log::write(format_args!("an upgrade, asked for by {whose}"));
                }
                Err(why) => Err(format!("no upgrade: {why}")),
            },
            Command::Set(key, value) => self.set(&key, &value),
            Command::Get(key) => {
                is_question = true;
                self.value_of(&key).map(Reply::Done)
            }
            // The admin sockets of both masters are one: this is not asked of the one that serves.
            Command::Settings => {
                is_question = true;
                Ok(Reply::Done(self.changeable()))
            }
            Command::Drain if self.is_yet_to_take_over() => {
                Err("an upgrade is under way: ask again when it is over".into())
            }
            Command::Drain => {
                self.due.ends = true;
                Ok(Reply::Done("the server accepts nothing more, finishes and ends".into()))
            }
            Command::Reload => self.reload().map(Reply::Done),
            Command::Renew(name) => return self.ask_agent(&asker, &ToAgent::Renew { name }),
            Command::Revoke(name) => return self.ask_agent(&asker, &ToAgent::Revoke { name }),
        };
        if is_question {
            return self.reply(&asker, &done.unwrap_or_else(Reply::Refused));
        }
        self.answer(&asker, done);
    }

    /// Has the agent do what is wanted, and answers when it has written that down.
    fn ask_agent(&mut self, asker: &Asker, message: &ToAgent) {
        if let Some(done) = self.tell_agent(asker, message).transpose() {
            self.answer(asker, done);
        }
    }

    /// Answers a command that changes something.
    pub(super) fn answer(&mut self, asker: &Asker, done: Result<Reply, String>) {
        let reply = done.unwrap_or_else(Reply::Refused);
        // Whatever the level is: who has changed what can be found out later.
        error_log::write(format_args!("{} (asked for by {})", reply.text(), asker.whose));
        self.reply(asker, &reply);
    }

    fn reply(&mut self, asker: &Asker, reply: &Reply) {
        let commands = self.ways.commands.as_ref();
        if commands.is_none_or(|pair| control::reply(pair, asker, reply).is_err()) {
            // A process that asks and does not listen has no business here.
            self.stop_asking();
        }
        self.refresh_admin();
    }

    /// The admin process gets no more answers: another takes its place.
    fn stop_asking(&mut self) {
        if let Some(commands) = self.ways.commands.take() {
            self.mechanism.remove(commands.as_fd());
        }
        let admin = self.children.iter().find(|child| child.role == Role::Admin);
        if let Some(process) = admin.and_then(|child| child.process) {
            process::kill(process);
        }
    }

    /// Another admin process takes the place of one that shows what is no longer so, such as the
    /// accept queues of the sockets that it was forked with.
    pub(super) fn refresh_admin(&mut self) {
        // A client of the process that is there waits for an answer.
        if self.ways.agent.as_ref().is_some_and(|agent| agent.is_waited_for(monotonic_ms())) {
            return;
        }
        let known = self.server.listening.all().len();
        let stale = std::mem::take(&mut self.due.admin_is_stale);
        if (self.shared.blocks.set_sockets(known) != known || stale)
            && let Err(error) = self.renew_admin()
        {
            say!(Level::Error, "cannot start the admin process: {error}");
        }
    }

    /// Starts the admin process, or ends it so that it is started again; for good if there is no
    /// socket for it any more.
    pub(super) fn renew_admin(&mut self) -> io::Result<()> {
        let wanted = !self.server.admin.is_empty();
        let admin = self.children.iter_mut().find(|child| child.role == Role::Admin);
        match admin {
            Some(child) => {
                // A new one comes as soon as this one has ended.
                child.restart = Restart::new(child.restart.due_ms);
                child.end = if wanted { None } else { Some(End::in_ms(0)) };
                child.process.into_iter().for_each(process::terminate);
                Ok(())
            }
            None if wanted => {
                self.children.push(Child::new(Role::Admin, 0, 0, &self.shared));
                self.start(self.children.len() - 1)
            }
            None => Ok(()),
        }
    }
}
