//! Responders that this server starts itself: programs that answer one request after the other on a
//! listening socket that they are given as descriptor 0 (FastCGI 1.0, section 2.2; the persistent
//! CGI of Pai, Druschel, Zwaenepoel, section 5.6). [`Pool`] decides, and this starts, ends, and
//! passes on what they write to their error output. Who asks them knows only their socket.
//!
//! All of it is a part of the process that starts programs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use flyball_sys::error_log::Level;
use flyball_sys::executable::Executable;
use flyball_sys::owned::Owned;
use flyball_sys::process::{Ending, ProcessId};
use flyball_sys::program::{self, End, Program, ProgramLimits, Starting};
use flyball_sys::readiness::{Interest, Readiness};
use flyball_sys::responder::{
    SocketName, Unnamed, has_waiting, make_private_directory, refuse, remove_directory, work_of,
};
use flyball_sys::{clock, say};

use flyball_site::PoolSettings;
use flyball_site::programs::{ErrorOutput, PATH, PoolRule};

use super::pool::{Bounds, Pool};

/// Connections that may wait until a responder accepts them.
const BACKLOG: i32 = 512;

/// How long a connection waits to be accepted before another responder is started beside those that
/// there are, in milliseconds.
const LOOK_MS: u64 = 5;

/// Time that one which was just started has to accept who waits, before another is started, in
/// milliseconds.
const BEGIN_MS: u64 = 100;

/// Time that a responder which is not needed has to end by itself, in milliseconds: it may be in
/// the middle of a request.
const GRACE_MS: u64 = 10_000;

/// Time that all have to end by themselves when no worker is left to ask them, in milliseconds.
const END_MS_MAX: u64 = 1_000;

/// Time after which a responder's error output is logged again up to its limit, in milliseconds.
const ERRORS_RENEWED_MS: u64 = 10_000;

/// How often it is looked whether a socket has its name still, in milliseconds: who cleans up, or a
/// server that took it over and failed, may have taken it away.
const NAME_CHECKED_MS: u64 = 1_000;

/// Bytes of error output that are read at a time.
const ERROR_BYTES: usize = 4096;

/// Tokens of the listening sockets, by the number of the rule, and of error outputs, by process.
const SOCKETS: u64 = 1 << 32;
const ERRORS: u64 = 1 << 33;

/// Where tokens of responders begin.
pub(super) const TOKENS: u64 = SOCKETS;

/// A responder that was started.
#[derive(Debug)]
struct Responder {
    process: ProcessId,
    /// Whether it was executed: looked at when it has ended.
    starting: Starting,
    errors: Option<Owned>,
    said: ErrorOutput,
    renewed_ms: u64,
}

/// All of a rule.
#[derive(Debug)]
struct Kind<'a> {
    rule: &'a PoolRule,
    /// Where sockets are that the settings do not name.
    directory: &'a Path,
    pool: Pool,
    socket: Option<OwnedFd>,
    /// It is kept while there is no socket.
    name: Option<SocketName>,
    /// Whether the socket is among what is waited for.
    watched: bool,
    /// When it is looked whether a connection still waits.
    look_ms: Option<u64>,
    /// Until when one that was started last may not have begun to accept.
    begins_ms: u64,
    /// When it is looked whether the socket has its name.
    name_check_ms: u64,
    responders: Vec<Responder>,
}

/// All responders.
#[derive(Debug)]
pub(super) struct Manager<'a> {
    kinds: Vec<Kind<'a>>,
    directory: &'a Path,
}

impl<'a> Manager<'a> {
    /// None of them listens yet. `directory` is made when a socket is in it.
    pub(super) fn new(rules: &'a [PoolRule], directory: &'a Path) -> Manager<'a> {
        let kinds = rules.iter().map(|rule| Kind::new(rule, directory)).collect();
        Manager { kinds, directory }
    }

    /// Listens for all of them or for none: no name passes to another socket before each is there.
    ///
    /// # Errors
    /// Which socket cannot be had, and why.
    pub(super) fn listen(&mut self) -> Result<(), String> {
        let listened = self.listen_for_all();
        if listened.is_err() {
            // Who had the name before sees that it is lost.
            self.kinds.iter().filter_map(|kind| kind.name.as_ref()).for_each(SocketName::unlink);
            remove_directory(self.directory);
        }
        listened
    }

    fn listen_for_all(&mut self) -> Result<(), String> {
        let fails =
            |kind: &Kind<'_>, error: io::Error| format!("{}: {error}", kind.rule.socket.display());
        let unnamed = |kind: &Kind<'_>| kind.unnamed().map_err(|error| fails(kind, error));
        let unnamed = self.kinds.iter().map(unnamed).collect::<Result<Vec<_>, _>>()?;
        for (kind, unnamed) in self.kinds.iter_mut().zip(unnamed) {
            kind.take_name(unnamed).map_err(|error| fails(kind, error))?;
        }
        Ok(())
    }

    /// Another process has taken names over and is given up: those that lead elsewhere lead here
    /// again.
    pub(super) fn take_names(&mut self, mechanism: &mut dyn Readiness) {
        for kind in &mut self.kinds {
            if !kind.name.as_ref().is_some_and(SocketName::is_held) {
                kind.give_up(mechanism, clock::monotonic_ms());
            }
        }
        self.go_on(mechanism);
    }

    /// When there is something to be done again, if nothing else happens.
    pub(super) fn due_ms(&self) -> Option<u64> {
        let due = |kind: &Kind<'_>| {
            [kind.pool.due_ms(), kind.look_ms, Some(kind.name_check_ms)].into_iter().flatten().min()
        };
        self.kinds.iter().filter_map(due).min()
    }

    /// One of the tokens from [`TOKENS`] is ready.
    pub(super) fn heed(&mut self, token: u64, mechanism: &mut dyn Readiness) {
        if token >= ERRORS {
            let number = |responder: &Responder| responder.process.number() as u64;
            let mut all = self.kinds.iter_mut().flat_map(|kind| &mut kind.responders);
            if let Some(responder) = all.find(|responder| number(responder) == token - ERRORS) {
                responder.hear(mechanism);
            }
        } else if let Some(kind) = self.kinds.get_mut((token - SOCKETS) as usize) {
            kind.somebody_waits(mechanism);
        }
    }

    /// Does what is due.
    pub(super) fn go_on(&mut self, mechanism: &mut dyn Readiness) {
        for (at, kind) in self.kinds.iter_mut().enumerate() {
            kind.go_on(SOCKETS + at as u64, mechanism);
        }
    }

    /// A child of this process has ended; whether it was a responder.
    pub(super) fn reaped(
        &mut self,
        process: ProcessId,
        ending: Ending,
        mechanism: &mut dyn Readiness,
    ) -> bool {
        self.kinds.iter_mut().any(|kind| kind.reaped(process, ending, mechanism))
    }

    /// No worker is left to ask them: they end, and their sockets lose their names. Blocks, at most
    /// for a second.
    pub(super) fn end(&mut self, mechanism: &mut dyn Readiness) {
        for kind in &mut self.kinds {
            kind.deafen(mechanism);
            kind.name.iter().for_each(SocketName::unlink);
            kind.pool.retire_all(u64::MAX);
            kind.end_all(false);
        }
        let until_ms = clock::monotonic_ms() + END_MS_MAX;
        let mut events = Vec::new();
        while self.kinds.iter().any(|kind| !kind.responders.is_empty())
            && clock::monotonic_ms() < until_ms
        {
            while let Some((process, ending)) = flyball_sys::process::reap() {
                self.reaped(process, ending, mechanism);
            }
            // What was ready before is ready still, and is not looked at any more.
            let _ = mechanism.wait(&mut events, 1);
        }
        self.kinds.iter().for_each(|kind| kind.end_all(true));
        remove_directory(self.directory);
    }
}

impl<'a> Kind<'a> {
    fn new(rule: &'a PoolRule, directory: &'a Path) -> Kind<'a> {
        let PoolSettings { processes_min, processes_max, idle_ms, .. } = rule.settings;
        let bounds = Bounds { least: processes_min, most: processes_max, idle_ms };
        Kind {
            rule,
            directory,
            pool: Pool::new(bounds),
            socket: None,
            name: None,
            watched: false,
            look_ms: None,
            begins_ms: 0,
            name_check_ms: 0,
            responders: Vec::new(),
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        let unnamed = self.unnamed()?;
        self.take_name(unnamed)
    }

    /// A socket that has not its name yet.
    fn unnamed(&self) -> io::Result<Unnamed> {
        if self.rule.socket.starts_with(self.directory) {
            make_private_directory(self.directory)?;
        }
        Unnamed::listen(&self.rule.socket, &self.rule.mark, BACKLOG)
    }

    fn take_name(&mut self, unnamed: Unnamed) -> io::Result<()> {
        let (socket, name) = unnamed.take_name()?;
        (self.socket, self.name) = (Some(socket), Some(name));
        self.watched = false;
        self.name_check_ms = clock::monotonic_ms() + NAME_CHECKED_MS;
        Ok(())
    }

    /// Turns away who waits and who comes. The name stays: it would be another user's to take.
    fn deafen(&mut self, mechanism: &mut dyn Readiness) {
        if let Some(socket) = self.socket.take()
            && std::mem::take(&mut self.watched)
        {
            mechanism.remove(socket.as_fd());
        }
        self.look_ms = None;
    }

    /// Looks again in a while, and not at each that comes meanwhile.
    fn somebody_waits(&mut self, mechanism: &mut dyn Readiness) {
        if let Some(socket) = &self.socket
            && std::mem::take(&mut self.watched)
        {
            mechanism.remove(socket.as_fd());
        }
        let now_ms = clock::monotonic_ms();
        let is_first = self.responders.is_empty();
        self.look_ms = Some(if is_first { now_ms } else { now_ms + LOOK_MS });
    }

    fn go_on(&mut self, token: u64, mechanism: &mut dyn Readiness) {
        let now_ms = clock::monotonic_ms();
        self.check_name(mechanism, now_ms);
        if self.pool.is_down(now_ms) {
            // What the dead have started may have it still.
            self.socket.iter().for_each(refuse);
            return self.deafen(mechanism);
        }
        if self.socket.is_none()
            && let Err(error) = self.listen()
        {
            let pause_ms = self.pool.failed(now_ms);
            let (name, socket) = (&self.rule.name, self.rule.socket.display());
            say!(Level::Error, "{name}: {socket}: {error}; again in {pause_ms} ms");
            return;
        }
        let looks = self.look_ms.is_some_and(|at| at <= now_ms);
        let waits = looks && self.socket.as_ref().is_some_and(has_waiting);
        while self.pool.lacks(false, now_ms) {
            self.start(mechanism, now_ms);
        }
        if !waits && looks {
            self.begins_ms = now_ms;
        }
        if waits && now_ms >= self.begins_ms && self.pool.lacks(true, now_ms) {
            self.start(mechanism, now_ms);
        }
        if looks {
            self.look_ms = (waits && !self.pool.is_full()).then_some(now_ms + LOOK_MS);
        }
        self.retire(now_ms);
        let watches = self.look_ms.is_none() && !self.pool.is_full();
        if let Some(socket) = &self.socket
            && watches
            && !self.watched
        {
            self.watched = mechanism.add(socket.as_fd(), token, Interest::READ).is_ok();
        }
    }

    /// A socket that has lost its name is given up.
    fn check_name(&mut self, mechanism: &mut dyn Readiness, now_ms: u64) {
        if now_ms < self.name_check_ms {
            return;
        }
        self.name_check_ms = now_ms + NAME_CHECKED_MS;
        if self.socket.is_some() && self.name.as_ref().is_some_and(SocketName::is_lost) {
            self.give_up(mechanism, now_ms);
        }
    }

    /// Gives the socket up, and those who have it with it: no client finds them. Another follows.
    fn give_up(&mut self, mechanism: &mut dyn Readiness, now_ms: u64) {
        self.deafen(mechanism);
        for number in self.pool.retire_all(now_ms + GRACE_MS) {
            if let Some(process) = self.process(number) {
                program::end_group(process, false);
            }
        }
    }

    fn process(&self, number: i32) -> Option<ProcessId> {
        let is_it = |responder: &&Responder| responder.process.number() == number;
        self.responders.iter().find(is_it).map(|responder| responder.process)
    }

    fn start(&mut self, mechanism: &mut dyn Readiness, now_ms: u64) {
        let name = &self.rule.name;
        match self.begin() {
            Ok((starting, errors)) => {
                let process = starting.leader();
                self.pool.started(process.number(), now_ms);
                self.begins_ms = now_ms + BEGIN_MS;
                let token = ERRORS + process.number() as u64;
                // It fails when memory is out: nothing is heard of this one then.
                let heard = mechanism.add(errors.as_fd(), token, Interest::READ).is_ok();
                let said = ErrorOutput::new(format!("{name} [{}]", process.number()));
                let (errors, renewed_ms) = (heard.then_some(errors), now_ms);
                self.responders.push(Responder { process, starting, errors, said, renewed_ms });
            }
            Err(error) => {
                let pause_ms = self.pool.failed(now_ms);
                self.say_not_started(&error, pause_ms);
            }
        }
    }

    fn say_not_started(&self, error: &io::Error, pause_ms: u64) {
        let (name, program) = (&self.rule.name, self.rule.program.display());
        say!(Level::Error, "{name}: {program} cannot be started: {error}; again in {pause_ms} ms");
    }

    /// A process, and the end of its error output.
    fn begin(&self) -> io::Result<(Starting, Owned)> {
        let PoolSettings { arguments, environment, memory_bytes, cpu_s, .. } = &self.rule.settings;
        let program = &self.rule.program;
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let file = Executable::find(program)?;
        file.check()?;
        let (errors, theirs) = program::pipe(End::Reading)?;
        let theirs = || theirs.as_fd().try_clone_to_owned();
        let mut variables = vec![(b"PATH".to_vec(), PATH.to_vec())];
        variables.extend(
            environment
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())),
        );
        let program = Program {
            path: program.clone(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: variables,
            standard: [socket.try_clone()?, theirs()?, theirs()?],
            limits: ProgramLimits { memory_bytes: *memory_bytes, cpu_s: *cpu_s },
        };
        Ok((program::begin(&file, program)?, errors))
    }

    fn retire(&mut self, now_ms: u64) {
        let processes: Vec<ProcessId> =
            self.responders.iter().map(|responder| responder.process).collect();
        let process = |number| processes.iter().find(|process| process.number() == number);
        let work = |number| work_of(*process(number)?);
        while let Some(number) = self.pool.retire(now_ms + GRACE_MS, now_ms, work) {
            process(number).map(|process| program::end_group(*process, false));
        }
        for number in self.pool.overdue(now_ms) {
            process(number).map(|process| program::end_group(*process, true));
        }
    }

    fn reaped(
        &mut self,
        process: ProcessId,
        ending: Ending,
        mechanism: &mut dyn Readiness,
    ) -> bool {
        let now_ms = clock::monotonic_ms();
        let well = ending == Ending::Exited(0);
        let Some(ended) = self.pool.ended(process.number(), well, now_ms) else { return false };
        let mut outcome = None;
        if let Some(at) = self.responders.iter().position(|known| known.process == process) {
            let mut responder = self.responders.swap_remove(at);
            responder.hear(mechanism);
            responder.let_go(mechanism);
            outcome = responder.starting.outcome();
        }
        // What it has started may hold the socket, and would answer no client.
        program::end_group(process, true);
        if let Some(Err(error)) = outcome {
            self.say_not_started(&error, ended.pause_ms);
            return true;
        }
        if !ended.was_told && (!well || ended.pause_ms > 0) {
            let how = match ending {
                Ending::Exited(code) => format!("ended with code {code}"),
                Ending::Killed(signal) => format!("was ended by signal {signal}"),
            };
            let (name, number) = (&self.rule.name, process.number());
            let then = match ended.pause_ms {
                0 => String::new(),
                pause_ms => format!("; the next is started in {pause_ms} ms"),
            };
            say!(Level::Warn, "{name} [{number}]: {how} after {} ms{then}", ended.lived_ms);
        }
        true
    }

    fn end_all(&self, kill: bool) {
        for responder in &self.responders {
            program::end_group(responder.process, kill);
        }
    }
}

impl Responder {
    fn hear(&mut self, mechanism: &mut dyn Readiness) {
        let now_ms = clock::monotonic_ms();
        if now_ms >= self.renewed_ms + ERRORS_RENEWED_MS {
            self.said.renew();
            self.renewed_ms = now_ms;
        }
        let mut buffer = [0; ERROR_BYTES];
        let Some(end) = &self.errors else { return };
        match program::read(end, &mut buffer) {
            Ok(0) => self.let_go(mechanism),
            Ok(n) => self.said.take(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.let_go(mechanism),
        }
    }

    fn let_go(&mut self, mechanism: &mut dyn Readiness) {
        if let Some(end) = self.errors.take() {
            mechanism.remove(end.as_fd());
        }
        self.said.flush();
    }
}
