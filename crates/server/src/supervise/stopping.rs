//! The end: every child is told to stop, and the log process comes last.

use std::io;
use std::os::fd::AsFd;

use flyball_arch::end::End;
use flyball_sys::error_log::Level;
use flyball_sys::process::{self, ask_to_reopen};
use flyball_sys::readiness::{self, Interest, Readiness};
use flyball_sys::signal::Signal;
use flyball_sys::{clock, net, say};

use super::children::{Child, Role};
use super::generations::LEAVE_MS_MAX;
use super::{KILL_AFTER_MS, Master, SIGNALS};

/// Time that the log process has to write what is left when all others have ended.
pub(super) const LOG_MS_MAX: u64 = 2_000;

/// Whether children of a role end when they are told to. The others end when they are not needed.
fn serves(role: Role) -> bool {
    !matches!(role, Role::Log | Role::Spawner)
}

impl Master {
    /// Tells every child to stop, and waits until they have, the drain deadline is over, or the
    /// server is told to stop once more. Those that the workers need come last.
    pub(super) fn stop(mut self) -> io::Result<bool> {
        self.stop_new_master();
        self.reap(false);
        // Of one that is replaced, or has not taken over, the names are another master's.
        let owns_names = !self.due.is_replaced && !self.is_yet_to_take_over();
        let serving = |child: &&Child| serves(child.role);
        if !self.due.is_replaced {
            self.notifier.stopping();
        }
        if owns_names {
            self.server.listening.remove_names();
        }
        // Workers of a master that is replaced have retired, and finish.
        let told = |child: &&Child| serving(child) && !(self.due.is_replaced && child.is_retired());
        for child in self.children.iter().filter(told).filter_map(|child| child.process) {
            process::terminate(child);
        }
        self.stop_listening();
        let end = End::in_ms(self.server.setup.settings.drain_ms);
        let mut mechanism = readiness::open("poll")?;
        mechanism.add(self.signals.as_fd(), SIGNALS, Interest::READ)?;
        let ended = self.wait_for_children(mechanism.as_mut(), end, KILL_AFTER_MS, serves)?;
        for child in self.children.iter().filter(serving).filter_map(|child| child.process) {
            process::kill(child);
        }
        // They end when no line and no request for a program can come any more.
        self.server.let_files_go()?;
        self.generation.previous = None;
        let end = End::in_ms(LOG_MS_MAX);
        let written = self.wait_for_children(mechanism.as_mut(), end, 0, |_| true)?;
        for process in self.log_processes().filter(|_| !written) {
            say!(Level::Error, "the access log takes no lines; those that are left are lost");
            process::kill(process);
        }
        if owns_names {
            self.server.admin.remove_names();
        }
        self.remove_pid_file();
        Ok(ended)
    }

    /// Refuses new connections where workers do not, because the listening sockets were lent when
    /// they began: as soon as they have taken what was queued.
    fn stop_listening(&mut self) {
        if !self.generation.lends_listeners || self.due.is_replaced {
            return;
        }
        let until_ms = clock::monotonic_ms() + LEAVE_MS_MAX;
        for accepting in self.children.iter_mut().filter_map(|child| child.accepting.take()) {
            process::wait_for_end(&accepting, until_ms.saturating_sub(clock::monotonic_ms()));
        }
        for socket in self.server.listening.own() {
            net::stop_listening(socket);
        }
    }

    /// Waits until no child of these roles is left: true. False when so long has passed after their
    /// end, or the server is told to stop once more.
    fn wait_for_children(
        &mut self,
        mechanism: &mut dyn Readiness,
        mut end: End,
        after_ms: u64,
        roles: fn(Role) -> bool,
    ) -> io::Result<bool> {
        loop {
            self.reap(false);
            let is_left = |child: &Child| child.process.is_some() && roles(child.role);
            if !self.children.iter().any(is_left) {
                return Ok(true);
            }
            let now_ms = clock::monotonic_ms();
            end.look(now_ms);
            let left_ms = end.look_ms(after_ms).saturating_sub(now_ms);
            if left_ms == 0 {
                return Ok(false);
            }
            mechanism.wait(&mut Vec::new(), i32::try_from(left_ms).unwrap_or(i32::MAX))?;
            let mut again = false;
            while let Some(signal) = self.signals.next() {
                again |= signal == Signal::Stop;
                if signal == Signal::Reopen {
                    self.log_processes().for_each(ask_to_reopen);
                }
            }
            if again {
                return Ok(false);
            }
        }
    }
}
