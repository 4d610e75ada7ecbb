//! The process that starts programs, which no worker does itself (design rule: a worker parses what
//! strangers send, and must not be able to start what it likes). It has one thread and holds no
//! socket of the server. A worker sends a record and the ends of pipes; which program runs is
//! decided here, by rules that were read before the first fork.

mod manager;
mod pool;

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use flyball_site::BackendLimits;
use flyball_site::programs::{
    LEAVE, Place, Programs, RECORD_BYTES_MAX, Rule, StartRequest, Told, WHOLE,
};
use flyball_sys::channel::{self, Channel};
use flyball_sys::clock;
use flyball_sys::error_log::Level;
use flyball_sys::executable::Executable;
use flyball_sys::file::{self, Failure};
use flyball_sys::intake::{Inbox, Intake};
use flyball_sys::process::{self, Ending};
use flyball_sys::program::{self, Group, Program, ProgramLimits, Starting};
use flyball_sys::readiness::{self, Event, Interest, Readiness};
use flyball_sys::say;
use flyball_sys::signal::{Signal, Signals};

use manager::Manager;

/// Time that a program whose answer is not wanted has to end by itself before it is killed, in
/// milliseconds.
const GRACE_MS: u64 = 2_000;

/// Time that a program may go on after its answer has ended, in milliseconds.
const LEFT_MS_MAX: u64 = 30_000;

/// Longest wait for a program to end where as many run as may, in milliseconds: one whose answer
/// has come may still be about to end, and the next request of its client is already there.
const PLACE_MS_MAX: u64 = 100;

/// Requests that wait so.
const WAITING_MAX: usize = 64;

/// Requests of one worker that are taken before other events are looked at.
const REQUESTS_PER_TURN: usize = 64;

/// Room asked for the requests of one worker that wait for the process, in bytes.
const QUEUE_BYTES: usize = 1024 * 1024;

/// Longest wait until the process can be reached, in milliseconds.
const READY_MS_MAX: u64 = 5_000;

/// What the process says once it can be; what it says instead is why it cannot.
const READY: &[u8] = b"+";

const SIGNALS: u64 = 0;
const LEASHES: u64 = 1;

/// Tokens of programs that are not executed yet: beyond those of leashes, and before those of
/// responders.
const STARTS: u64 = 1 << 31;

/// Numbers of programs, which come round.
const STARTED_MAX: u32 = 1 << 30;

/// Tokens of the workers' channels: beyond those of responders.
const REQUESTS: u64 = 1 << 48;

/// The program for a path, and how much of the path names it. Blocks on the disk.
fn find(rule: &Rule, below: &[u8]) -> Result<Chosen, Told> {
    let root = match &rule.place {
        Place::Program(path) => {
            let file = Executable::find(path).map_err(not_found)?;
            return Chosen { file, path: path.clone(), named: 0 }.checked();
        }
        Place::Beneath(root) => root,
    };
    let opened = file::open_root(root).map_err(not_found)?;
    let mut end = 0;
    while end < below.len() {
        let next = below[end + 1..].iter().position(|&byte| byte == b'/');
        end = next.map_or(below.len(), |at| end + 1 + at);
        let name = &below[1..end];
        if !rule.lets_run(name) {
            return Err(Told::Missing);
        }
        let found = Executable::find_beneath(&opened, name, rule.links).map_err(not_found)?;
        if let Some(file) = found {
            let path = root.join(OsStr::from_bytes(name));
            return Chosen { file, path, named: end }.checked();
        }
    }
    Err(Told::Missing)
}

/// A program that was found.
struct Chosen {
    file: Executable,
    /// What it is told that it was found by.
    path: PathBuf,
    /// How much of the path of the request names it.
    named: usize,
}

impl Chosen {
    fn checked(self) -> Result<Chosen, Told> {
        match self.file.check() {
            Ok(()) => Ok(self),
            Err(_) => Err(Told::Forbidden),
        }
    }
}

/// Why no file was found.
fn not_found(error: io::Error) -> Told {
    match file::failure(&error) {
        Failure::Denied => Told::Forbidden,
        Failure::Exhausted => Told::Busy,
        Failure::Missing => Told::Missing,
    }
}

/// The way to the process, and what the process needs.
#[derive(Debug)]
pub(crate) struct Spawner {
    intake: Intake,
    programs: Arc<Programs>,
    /// A process of it has begun before.
    was_ready: AtomicBool,
}

impl Spawner {
    pub(crate) fn new(programs: &Arc<Programs>) -> Spawner {
        let (intake, was_ready) = (Intake::default(), AtomicBool::new(false));
        Spawner { intake, programs: Arc::clone(programs), was_ready }
    }

    /// Waits until the responders that it manages can be reached, at most for a few seconds.
    /// Blocks.
    ///
    /// # Errors
    /// Which of them cannot be, and why.
    pub(crate) fn wait_until_ready(&self) -> io::Result<()> {
        if self.programs.pools.is_empty() {
            return Ok(());
        }
        let mut why = [0; 1024];
        let told = |how: &str| io::Error::other(format!("the process that starts programs {how}"));
        let heard = self.intake.hear(&mut why, READY_MS_MAX).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => told("is not ready in time"),
            _ => error,
        });
        match heard? {
            0 => Err(told("ended while it started")),
            1 => {
                self.was_ready.store(true, Relaxed);
                Ok(())
            }
            n => Err(io::Error::other(String::from_utf8_lossy(&why[..n]).into_owned())),
        }
    }

    /// What a new worker asks for programs by, which no other has.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn admit(&self) -> io::Result<Channel> {
        self.intake.admit(QUEUE_BYTES)
    }

    /// The way of a process that is about to be forked, which it must keep.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn renew(&self) -> io::Result<Channel> {
        self.intake.renew()
    }

    /// Hands over to the process what found no room before; whether some is left.
    pub(crate) fn hand_over(&self) -> bool {
        self.intake.hand_over()
    }

    /// Leaves what only the master and the process itself have: to be called in every other.
    pub(crate) fn leave(&self) {
        self.intake.leave();
    }

    /// The life of the process: until no request can come any more, whereupon it ends what still
    /// runs. Blocks.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub(crate) fn run(&self, way: &Channel) -> io::Result<()> {
        // Programs shall not find, as their parent's, the directory that the server was started in.
        std::env::set_current_dir("/")?;
        process::heed_children();
        let signals = Signals::block()?;
        let mut mechanism = readiness::open("epoll")?;
        let mut inbox = Inbox::open(way, REQUESTS, &mut *mechanism)?;
        mechanism.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        let mut manager = Manager::new(&self.programs.pools, &self.programs.directory);
        // Later what cannot be had is tried again, and keeps no program of others from running.
        if !self.was_ready.load(Relaxed)
            && let Err(why) = manager.listen()
        {
            way.send(why.as_bytes(), None)?;
            return Err(io::Error::other(why));
        }
        manager.go_on(&mut *mechanism);
        // The master may not listen.
        let _ = way.send(READY, None);
        let record = vec![0; RECORD_BYTES_MAX];
        let (running, waiting) = (Vec::new(), Vec::new());
        let rules = &self.programs.rules;
        let mut office = Office { rules, manager, mechanism, running, started: 0, waiting, record };
        let mut events = Vec::new();
        loop {
            office.wait(&mut events)?;
            for event in &events {
                match event.token {
                    SIGNALS => {
                        // The master ends this process by closing the way.
                        while let Some(signal) = signals.next() {
                            match signal {
                                Signal::Child => office.reap(),
                                Signal::TakeNames => {
                                    office.manager.take_names(&mut *office.mechanism);
                                }
                                _ => {}
                            }
                        }
                    }
                    token if inbox.has(token) => office.take_requests(&mut inbox, token),
                    token if token >= manager::TOKENS => {
                        office.manager.heed(token, &mut *office.mechanism);
                    }
                    token if token >= STARTS => office.settle(token - STARTS),
                    leash => office.heed(leash - LEASHES),
                }
            }
            if inbox.is_over() {
                office.end_all();
                return Ok(());
            }
            office.kill_overdue();
            office.refuse_overdue();
            office.manager.go_on(&mut *office.mechanism);
        }
    }
}

/// A program that was started.
struct Running {
    /// What its leash is told by: process ids come round, and a leash may outlive its program.
    number: u32,
    group: Group,
    /// It has not ended.
    lives: bool,
    /// Until the worker has let go of it.
    leash: Option<Channel>,
    rule: usize,
    kill_at_ms: Option<u64>,
    /// The other end of its input, held until the body is whole, or the program has ended.
    input: Option<OwnedFd>,
    /// What is needed until it is executed.
    start: Option<Box<Start>>,
}

/// A program that is about to be executed.
struct Start {
    starting: Starting,
    file: Executable,
    path: PathBuf,
    /// What it gets, held until it is known whether it has: that is told before they end.
    _standard: [OwnedFd; 3],
}

impl Running {
    /// Whether it was executed may be known by now: tells it if it was not.
    fn settle(&mut self, mechanism: &mut dyn Readiness) {
        let Some(outcome) = self.start.as_ref().and_then(|start| start.starting.outcome()) else {
            return;
        };
        let Some(start) = self.start.take() else { return };
        mechanism.remove(start.starting.as_fd());
        if let Err(error) = outcome
            && let Some(leash) = self.leash.take()
        {
            let told = failed(&start.file, &start.path, &error);
            let _ = leash.send_now(&told.encode());
            mechanism.remove(leash.as_fd());
        }
    }
}

/// A request for a program, and what the program gets.
struct Asked {
    request: StartRequest,
    /// Input, output and error output.
    standard: [OwnedFd; 3],
    leash: Channel,
    /// The other end of its input, if it has a body.
    held: Option<OwnedFd>,
}

/// The process at work.
struct Office<'a> {
    rules: &'a [Rule],
    manager: Manager<'a>,
    mechanism: Box<dyn Readiness>,
    running: Vec<Running>,
    /// Programs that were started.
    started: u32,
    /// Those for which there is no place yet, the oldest first, and until when they wait.
    waiting: Vec<(Asked, u64)>,
    record: Vec<u8>,
}

impl Office<'_> {
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        let kills = self.running.iter().filter_map(|running| running.kill_at_ms);
        let refusals = self.waiting.first().map(|(_, until_ms)| *until_ms);
        let due = kills.chain(self.manager.due_ms()).chain(refusals).min();
        let now_ms = clock::monotonic_ms();
        let left = due
            .map_or(-1, |at| i32::try_from(at.saturating_sub(now_ms).max(1)).unwrap_or(i32::MAX));
        self.mechanism.wait(events, left)
    }

    /// Starts what a worker asks for.
    fn take_requests(&mut self, inbox: &mut Inbox<'_>, token: u64) {
        let mut record = std::mem::take(&mut self.record);
        let mut asked = Vec::new();
        inbox.heed(token, &mut *self.mechanism, REQUESTS_PER_TURN, |channel| {
            let (n, mut descriptors) = channel.receive_now_with(&mut record)?;
            let held = (descriptors.len() > 4).then(|| descriptors.pop()).flatten();
            let descriptors: Result<[OwnedFd; 4], _> = descriptors.try_into();
            match (StartRequest::decode(&record[..n]), descriptors) {
                (Some(request), Ok([input, output, error, leash])) => {
                    let leash = Channel::from_fd(leash);
                    asked.push(Asked { request, standard: [input, output, error], leash, held });
                }
                _ if n > 0 => channel::say_dropped(),
                _ => {}
            }
            Ok(n == 0)
        });
        self.record = record;
        asked.into_iter().for_each(|asked| self.take(asked));
    }

    /// Starts a program, or has it wait for a place.
    fn take(&mut self, asked: Asked) {
        if self.is_full(&asked) {
            // Some may have ended already.
            self.reap();
        }
        if self.is_full(&asked) && self.waiting.len() < WAITING_MAX {
            self.waiting.push((asked, clock::monotonic_ms() + PLACE_MS_MAX));
        } else {
            self.begin(asked);
        }
    }

    /// Whether as many programs of its kind run as may.
    fn is_full(&self, asked: &Asked) -> bool {
        let at = asked.request.rule as usize;
        let lives = |running: &&Running| running.rule == at && running.lives;
        let most = self.rules.get(at).map(|rule| rule.limits.processes_max);
        most.is_some_and(|most| self.running.iter().filter(lives).count() >= most)
    }

    fn begin(&mut self, asked: Asked) {
        let full = self.is_full(&asked);
        let Asked { request, standard, leash, held } = asked;
        let started = if full { Err(Told::Busy) } else { self.start(request, &standard) };
        match started {
            Ok((starting, file, path)) => {
                self.watch(Start { starting, file, path, _standard: standard }, leash, held);
            }
            // While this process holds the pipes: it is there when they come to an end.
            Err(told) => drop(leash.send_now(&told.encode())),
        }
    }

    fn start(
        &mut self,
        request: StartRequest,
        standard: &[OwnedFd; 3],
    ) -> Result<(Starting, Executable, PathBuf), Told> {
        // What is neither read nor written to its end could be a program itself.
        if !standard.iter().all(program::is_pipe) {
            return Err(Told::Forbidden);
        }
        let at = request.rule as usize;
        let rule = self.rules.get(at).ok_or(Told::Missing)?;
        let Chosen { file, path, named } = find(rule, &request.below)?;
        let [Ok(input), Ok(output), Ok(error)] = standard.each_ref().map(OwnedFd::try_clone) else {
            return Err(Told::Busy);
        };
        let StartRequest { below, mut environment, .. } = request;
        rule.complete(&mut environment, &path, &below, named);
        let BackendLimits { memory_bytes, cpu_s, whole_ms, .. } = rule.limits;
        let program = Program {
            path: path.clone(),
            arguments: Vec::new(),
            environment: environment.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect(),
            standard: [input, output, error],
            limits: ProgramLimits { memory_bytes, cpu_s },
        };
        let begun = program::begin(&file, program);
        let starting = begun.map_err(|error| failed(&file, &path, &error))?;
        let kill_at_ms = whole_ms.map(|most| clock::monotonic_ms() + most + GRACE_MS);
        let (number, group) = (self.started, Group::of(starting.leader()));
        self.started = (self.started + 1) % STARTED_MAX;
        self.running.push(Running {
            number,
            group,
            lives: true,
            leash: None,
            rule: at,
            kill_at_ms,
            input: None,
            start: None,
        });
        Ok((starting, file, path))
    }

    /// Waits for the program that was begun last to be executed, and for the worker to let go of
    /// it.
    fn watch(&mut self, start: Start, leash: Channel, held: Option<OwnedFd>) {
        let Some(running) = self.running.last_mut() else { return };
        let number = u64::from(running.number);
        // They do not fail while memory lasts.
        let _ = self.mechanism.add(leash.as_fd(), LEASHES + number, Interest::READ);
        let _ = self.mechanism.add(start.starting.as_fd(), STARTS + number, Interest::READ);
        (running.leash, running.start) = (Some(leash), Some(Box::new(start)));
        running.input = held;
    }

    /// Whether a program was executed may be known.
    fn settle(&mut self, number: u64) {
        let is_it = |running: &&mut Running| u64::from(running.number) == number;
        if let Some(running) = self.running.iter_mut().find(is_it) {
            running.settle(&mut *self.mechanism);
        }
    }

    /// The worker says that the answer has ended, or has let go of the program.
    fn heed(&mut self, number: u64) {
        let is_it =
            |running: &&mut Running| u64::from(running.number) == number && running.leash.is_some();
        let Some(running) = self.running.iter_mut().find(is_it) else { return };
        let Some(leash) = &running.leash else { return };
        let now_ms = clock::monotonic_ms();
        let mut record = [0; 8];
        match leash.receive_now_with(&mut record) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok((n, none)) if &record[..n] == WHOLE && none.is_empty() => {
                running.input = None;
                return;
            }
            Ok((n, none)) if &record[..n] == LEAVE && none.is_empty() => {
                running.input = None;
                let is_there = running.lives || running.group.is_there();
                running.kill_at_ms = is_there.then_some(now_ms + LEFT_MS_MAX);
            }
            told => {
                let sent = told.ok().and_then(|(_, input)| input.into_iter().next_back());
                running.input = sent.or_else(|| running.input.take());
                // Members of the group may live on when the program itself has ended.
                let is_there = running.group.end(false, running.lives);
                running.kill_at_ms = is_there.then_some(now_ms + GRACE_MS);
            }
        }
        self.mechanism.remove(leash.as_fd());
        running.leash = None;
        self.forget_ended();
    }

    fn reap(&mut self) {
        while let Some((process, ending)) = process::reap() {
            let is_it = |running: &&mut Running| running.lives && running.group.leader() == process;
            let Some(running) = self.running.iter_mut().find(is_it) else {
                self.manager.reaped(process, ending, &mut *self.mechanism);
                continue;
            };
            running.settle(&mut *self.mechanism);
            running.lives = false;
            // Those that are left of its group have their time; without any nothing is kept.
            running.kill_at_ms = running.kill_at_ms.filter(|_| running.group.is_there());
            if let Some(leash) = &running.leash {
                let told = match ending {
                    Ending::Exited(code) => Told::Exited(code),
                    Ending::Killed(signal) => Told::Killed(signal),
                };
                let _ = leash.send_now(&told.encode());
            }
        }
        self.forget_ended();
        self.admit();
    }

    /// Starts those who have waited for a place that is there now.
    fn admit(&mut self) {
        let mut at = 0;
        while let Some((asked, _)) = self.waiting.get(at) {
            if self.is_full(asked) {
                at += 1;
            } else {
                let (asked, _) = self.waiting.remove(at);
                self.begin(asked);
            }
        }
    }

    /// Refuses those who have waited for too long.
    fn refuse_overdue(&mut self) {
        let now_ms = clock::monotonic_ms();
        while self.waiting.first().is_some_and(|(_, until_ms)| *until_ms <= now_ms) {
            let (asked, _) = self.waiting.remove(0);
            self.begin(asked);
        }
    }

    fn forget_ended(&mut self) {
        // Of one that has ended, members of its group may have been asked to end.
        self.running.retain(|running| {
            running.lives || running.leash.is_some() || running.kill_at_ms.is_some()
        });
    }

    fn kill_overdue(&mut self) {
        let now_ms = clock::monotonic_ms();
        for running in &mut self.running {
            if running.kill_at_ms.is_some_and(|at| at <= now_ms) {
                running.group.end(true, running.lives);
                running.kill_at_ms = None;
            }
        }
        self.forget_ended();
    }

    fn end_all(&mut self) {
        for running in &self.running {
            running.group.end(true, running.lives);
        }
        self.manager.end(&mut *self.mechanism);
    }
}

/// Why a program that is there and that may be run was not started.
fn failed(file: &Executable, path: &Path, error: &io::Error) -> Told {
    if !program::is_of_file(error) {
        return Told::Failed(error.raw_os_error().unwrap_or(0));
    }
    let by = match file.interpreter() {
        Ok(Some(name)) => format!("its interpreter \"{}\"", name.escape_ascii()),
        _ => "the kernel".into(),
    };
    say!(Level::Error, "cgi: {} is not run by {by}: {error}", path.display());
    Told::Unrunnable
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_site::PoolSettings;
    use flyball_site::programs::PoolRule;
    use flyball_sys::responder::Mark;

    #[test]
    fn a_process_that_ends_while_it_starts_is_told_of_by_its_name() {
        let socket = PathBuf::from("/socket");
        let rule = PoolRule {
            name: "fastcgi".into(),
            mark: Mark::of(&socket, &[]),
            socket,
            program: "/program".into(),
            settings: PoolSettings::default(),
        };
        let (rules, pools, directory) = (Vec::new(), vec![rule], PathBuf::new());
        let spawner = Spawner::new(&Arc::new(Programs { rules, pools, directory }));
        drop(spawner.renew().unwrap());
        let why = spawner.wait_until_ready().unwrap_err().to_string();
        assert_eq!(why, "the process that starts programs ended while it started");
    }
}
