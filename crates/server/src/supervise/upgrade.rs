//! Upgrade: the program that is now at the server's path takes its place, with the same listening
//! sockets. The new master says when it is prepared, the workers of this one leave the listening
//! sockets, and the new one begins; this one finishes what it has and ends. When the new one fails
//! at any point, this one goes on.

use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use flyball_sys::channel::Channel;
use flyball_sys::error_log::Level;
use flyball_sys::process::{self, Ending, Forked, ProcessId};
use flyball_sys::readiness::Interest;
use flyball_sys::{clock, inherit, net, notify, say};

use super::generations::GENERATIONS_MAX;
use super::{HANDOVER, Master};
use crate::admin::AdminSocket;
use crate::control::{self, Asker, Reply};
use crate::handover::{self, GO, PREPARED, READY};

/// Longest wait of a new master for the workers of the one before to leave the listening sockets.
const GO_MS_MAX: u64 = 15_000;

/// A new master is ready when its workers have lived so long.
pub(super) const READY_AFTER_MS: u64 = 300;

/// Longest wait of a new master for the one before to name it to who supervises them.
const NAMED_MS_MAX: u64 = 1_000;

/// Longest wait for the end of a new master that has nothing to say to this one any more.
const LAST_WORDS_MS_MAX: u64 = 1_000;

/// Why a new master is given up that has ended: whichever of its ends is seen first.
const ENDED: &str = "it ended before it was ready; its messages say why";

/// Longest message between the two, in bytes.
const MESSAGE_BYTES_MAX: usize = 64;

/// Exit code of a process that could not become the new program.
const NOT_RUN: i32 = 127;

/// A new master that is not ready yet.
pub(super) struct Upgrade {
    process: ProcessId,
    /// It may be no child of this process: its number could be another's when it has ended.
    handle: Option<OwnedFd>,
    /// The way to it.
    way: Channel,
    until_ms: u64,
    /// How long that is, in milliseconds.
    most_ms: u64,
    /// The workers of this master have left the listening sockets for it.
    has_begun: bool,
    /// A client of the admin process waits for an answer.
    asker: Option<Asker>,
}

impl Upgrade {
    /// When it has taken too long, in monotonic milliseconds.
    pub(super) fn until_ms(&self) -> u64 {
        self.until_ms
    }
}

impl Master {
    /// Starts the new program; how that goes is seen later.
    ///
    /// # Errors
    /// Why it is not even started.
    pub(super) fn upgrade(&mut self, asker: Option<Asker>) -> Result<(), String> {
        self.is_free_to_change()?;
        let Some((program, arguments)) =
            self.server.configuration.as_ref().map(|configuration| configuration.program())
        else {
            return Err("this server does not know which program it is".into());
        };
        if self.generations_alive() >= GENERATIONS_MAX {
            return Err("earlier generations of workers still have connections".into());
        }
        let fail = |error: std::io::Error| format!("{}: {error}", program.display());
        let (way, theirs) = Channel::pair().map_err(fail)?;
        let listening: Vec<_> = self.server.listening.handed_over().collect();
        let admin = &self.server.admin;
        let kept = self.server.setup.tls.as_ref().map(|tls| tls.kept().in_memory());
        let kept = kept.transpose().map_err(fail)?;
        let roots = kept.as_ref().map(|kept| &kept.roots);
        let certificates = kept.as_ref().map(|kept| &kept.certificates);
        let is_lent = admin.iter().map(AdminSocket::is_lent);
        let lent = handover::describe_lent(self.server.listening.lent(), is_lent);
        let settings = &self.server.setup.settings;
        let admin_is = handover::describe_admin(admin.iter().map(|it| it.is_now(settings)));
        let nodes = admin.iter().map(|it| it.name().map(|(_, node)| node));
        let names = handover::describe_names(self.server.listening.names(), nodes);
        let admin: Vec<&OwnedFd> = admin.iter().map(|it| &*it.socket).collect();
        let of_admin = admin.iter().copied();
        let told = handover::describe(theirs.as_fd(), of_admin, roots, listening.iter().cloned());
        // Who supervises this master waits for its own children. Of any other it will not see the
        // end: when it stops the server, it kills that one at once.
        let forked = match self.notifier.is_heard() {
            true => process::fork_beside(),
            false => process::fork_with_handle(),
        };
        let (forked, handle) = forked.map_err(fail)?;
        match forked {
            Forked::Child => {
                let sockets = listening.iter().flat_map(|(_, sockets)| sockets);
                let mut keep: Vec<_> = sockets.map(|socket| socket.as_fd()).collect();
                keep.extend(admin.iter().map(AsFd::as_fd));
                keep.extend(roots.into_iter().chain(certificates).map(AsFd::as_fd));
                keep.push(theirs.as_fd());
                let own = process::own_id().to_string();
                let set = [
                    (handover::VARIABLE, told),
                    (handover::LENT, lent),
                    (handover::ADMIN_IS, admin_is),
                    (handover::NAMES, names),
                    (handover::CERTIFICATES, handover::describe_certificates(certificates)),
                    (notify::WATCHED, own),
                ];
                let unset = handover::SYSTEMD;
                let error = inherit::run_program(&program, &arguments, &keep, &set, &unset);
                say!(Level::Error, "cannot run {}: {error}", program.display());
                process::exit_now(NOT_RUN)
            }
            Forked::Parent(process) => {
                let most_ms = self.server.setup.settings.running.upgrade_ms;
                let until_ms = clock::monotonic_ms() + most_ms;
                let has_begun = false;
                let upgrade = Upgrade { process, handle, way, until_ms, most_ms, has_begun, asker };
                self.wait_for_new_master(upgrade, &program);
                Ok(())
            }
        }
    }

    fn wait_for_new_master(&mut self, upgrade: Upgrade, program: &Path) {
        let added = self.mechanism.add(upgrade.way.as_fd(), HANDOVER, Interest::READ);
        let number = upgrade.process.number();
        self.upgrade = Some(upgrade);
        say!(Level::Info, "{} is started as process {number}", program.display());
        if let Err(error) = added {
            self.roll_back(&error.to_string());
        }
    }

    /// Whether something else may be changed now.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn is_free_to_change(&self) -> Result<(), String> {
        match self.upgrade {
            Some(_) => Err("an upgrade is under way".into()),
            None => Ok(()),
        }
    }

    /// Hears what the new master says; true when it has taken over.
    pub(super) fn hear_new_master(&mut self) -> bool {
        let Some(upgrade) = &mut self.upgrade else { return false };
        let mut message = [0; MESSAGE_BYTES_MAX];
        let len = match upgrade.way.receive_now(&mut message) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            received => received.unwrap_or(0),
        };
        match &message[..len] {
            PREPARED if !upgrade.has_begun => {
                upgrade.has_begun = true;
                self.retire();
                self.end_agent();
                let told = self.upgrade.as_ref().map(|up| up.way.send(GO, None));
                if told.is_none_or(|told| told.is_err()) {
                    self.roll_back("it has gone");
                }
                false
            }
            READY if upgrade.has_begun => true,
            _ => {
                // It ends, and has not said why as yet: it is killed if it does not.
                if let Some(handle) = &upgrade.handle {
                    let _ = net::wait_readable(handle, LAST_WORDS_MS_MAX);
                }
                self.roll_back(ENDED);
                false
            }
        }
    }

    /// The new master has taken over: says so, and leaves it what is its now.
    pub(super) fn hand_over(&mut self) {
        let Some(upgrade) = self.upgrade.take() else { return };
        let number = upgrade.process.number();
        self.notifier.replaced_by(number);
        let said = format!("process {number} has taken over");
        say!(Level::Info, "{said}; this one finishes");
        self.tell_who_asked(upgrade.asker, &Reply::Done(said));
        self.due.is_replaced = true;
    }

    /// A process that is no child of the server's own ended: the new master, if there is one.
    pub(super) fn new_master_ended(&mut self, process: ProcessId, ending: Ending) {
        if self.upgrade.as_ref().is_some_and(|upgrade| upgrade.process == process) {
            say!(Level::Warn, "process {} {ending}", process.number());
            self.roll_back(ENDED);
        }
    }

    /// Gives the new master up when it takes too long.
    pub(super) fn end_late_upgrade(&mut self) {
        let now_ms = clock::monotonic_ms();
        let late = self.upgrade.as_ref().filter(|upgrade| upgrade.until_ms <= now_ms);
        if let Some(Upgrade { most_ms, .. }) = late {
            let why = format!("it was not ready within {most_ms} ms (upgrade-timeout)");
            self.roll_back(&why);
        }
    }

    /// The new master failed: it is ended, and this one goes on as before.
    pub(super) fn roll_back(&mut self, why: &str) {
        let Some(upgrade) = self.upgrade.take() else { return };
        self.mechanism.remove(upgrade.way.as_fd());
        process::kill_by(upgrade.handle.as_ref(), upgrade.process);
        let mut said = format!("the upgrade failed, and this server goes on: {why}");
        if upgrade.has_begun
            && let Err(why) = self.prepare_and_begin()
        {
            said += &format!("; {why}");
        }
        say!(Level::Error, "{said}");
        self.tell_who_asked(upgrade.asker, &Reply::Refused(said));
        self.due.admin_is_stale = true;
        self.refresh_admin();
    }

    /// This server is told to stop, and so is a new master that has not taken over. One that has
    /// begun finishes what it has accepted.
    pub(super) fn stop_new_master(&mut self) {
        let Some(upgrade) = self.upgrade.take() else { return };
        let say_it = if upgrade.has_begun { process::terminate_by } else { process::kill_by };
        say_it(upgrade.handle.as_ref(), upgrade.process);
        let said = "no upgrade: the server is told to stop".to_owned();
        say!(Level::Info, "{said}");
        self.tell_who_asked(upgrade.asker, &Reply::Refused(said));
    }

    /// Tells whom the upgrade was asked by, if anyone waits, how it has ended.
    fn tell_who_asked(&self, asker: Option<Asker>, reply: &Reply) {
        if let (Some(asker), Some(commands)) = (asker, &self.ways.commands) {
            let _ = control::reply(commands, &asker, reply);
        }
    }

    /// Whether another master is still the server, and all names are its own.
    pub(super) fn is_yet_to_take_over(&self) -> bool {
        self.server.before.is_some()
    }

    /// In the new master: waits until the one before accepts no more. Blocks.
    ///
    /// # Errors
    /// When that one has gone, or does not answer.
    pub(super) fn wait_for_turn(&mut self) -> std::io::Result<()> {
        let Some(before) = &self.server.before else { return Ok(()) };
        before.send(PREPARED, None)?;
        let mut message = [0; MESSAGE_BYTES_MAX];
        let came = net::wait_readable(before.as_fd(), GO_MS_MAX)?;
        let len = if came { before.receive_now(&mut message)? } else { 0 };
        if &message[..len] != GO {
            return Err(std::io::Error::other("the master before does not hand over"));
        }
        self.server.listening.leave();
        let (architecture, settings) =
            (self.server.setup.architecture, &self.server.setup.settings);
        self.server.listening.prepare(architecture, settings).map_err(std::io::Error::other)?;
        Ok(())
    }

    /// Says that the server serves, once: to the master before, which then ends, and to the service
    /// manager.
    pub(super) fn say_ready(&mut self) {
        self.is_ready = true;
        self.write_pid_file();
        if let Some(before) = self.server.before.take() {
            self.server.admin.remove_left();
            // It may have given this one up, and kill it.
            let _ = before.send(READY, None);
            // Until it has named this process no other is heard. It closes its end then.
            let _ = net::wait_readable(before.as_fd(), NAMED_MS_MAX);
        }
        self.notifier.ready(&self.status_line());
    }
}
