//! The log process: takes batches of lines and appends them, opens the file anew when it is told
//! to, and puts files aside that are too long or too old. It may block where a worker must not.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::path::Path;

use flyball_sys::channel::Channel;
use flyball_sys::error_log::Level;
use flyball_sys::intake::{Inbox, Intake};
use flyball_sys::log_file::{self, LogFile, LogState};
use flyball_sys::readiness::{self, Interest};
use flyball_sys::signal::{Signal, Signals};
use flyball_sys::{clock, process, say};

use super::logs::Tag;
use super::writer::count_lines;
use super::{AccessLog, AccessLogs, BATCH_BYTES_MAX, CHANNEL_BYTES, LogSender, LogSettings};
use crate::counters::{Blocks, Counter, Owner, Tally};
use crate::writers::Writers;

/// Wait before a file is opened or put aside again that could not be, in milliseconds.
const AGAIN_MS: u64 = 1_000;

/// How often in a row a file is left where it is because its lock is held. A process that puts it
/// aside holds that for as long as a few names take.
const YIELDS: u32 = 5;

/// Longest wait before the age of a file is looked at, in milliseconds: the clock may be set.
const LOOK_MS_MAX: u64 = 60_000;

/// Batches of one worker that are taken before the others have their turn.
const BATCHES_PER_TURN: usize = 64;

/// Least room that an access log has for its lines of a batch, in bytes; few logs have more, that
/// of a whole batch between them.
const LINES_BYTES_MIN: usize = 4 * 1024;

/// Tokens of what the process waits for; those of the channels of one kind of log are told by its
/// place in the list.
const SIGNALS: u64 = u64::MAX;
const FILE: u64 = u64::MAX - 1;
const CHANNELS_BITS: u32 = 32;

/// Who takes the lines, before it runs.
#[derive(Debug)]
pub struct Appender {
    kinds: Vec<Kind>,
}

/// Logs of one kind, whose lines come by one way.
#[derive(Debug)]
struct Kind {
    which: Which,
    intake: Intake,
    logs: Vec<Log>,
}

/// Which kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Access logs, whose lines say by their tags to which they belong.
    Access,
    /// That of slow requests.
    Slow,
}

/// One log.
#[derive(Debug)]
struct Log {
    /// What it is called in messages.
    name: String,
    which: Which,
    to: AccessLog,
    bytes_max: Option<u64>,
    ms_max: Option<u64>,
    keep: usize,
}

/// The logs of one kind while the process runs.
struct Desk<'a> {
    which: Which,
    runs: Vec<Run<'a>>,
    /// Those that have lines of the batch that is sorted.
    touched: Vec<usize>,
}

/// Signals, for all logs of the process.
struct Told {
    signals: Signals,
    /// How often it was said that files shall be opened anew.
    reopens: Cell<u64>,
}

impl Told {
    /// Takes those that have come. Only SIGUSR1 has a meaning here: the process ends after those
    /// whose lines it writes, whoever else was told to stop.
    fn hear(&self) {
        while let Some(signal) = self.signals.next() {
            self.reopens.set(self.reopens.get() + u64::from(signal == Signal::Reopen));
        }
    }
}

/// The log process while it runs.
struct Run<'a> {
    plan: &'a Log,
    told: &'a Told,
    /// How often files were opened anew when this one was.
    reopened: u64,
    file: Option<Open>,
    /// When its path is opened again, unless what is open is what the path named last.
    open_ms: Option<u64>,
    /// When it may be put aside again.
    aside_ms: u64,
    /// How often it was not, since its lock was held.
    yielded: u32,
    /// When it is looked at again whether it was put aside by another.
    look_ms: u64,
    /// Its lines among those that have come.
    lines: Vec<u8>,
    /// What keeps it from being written.
    writing: Trouble,
    /// What keeps it from being opened, or put aside.
    placing: Trouble,
}

/// What was said last of a trouble, as long as that lasts: it is said once.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    /// Tells whoever runs the server.
    fn say(&mut self, what: String) {
        if self.0.as_ref() != Some(&what) {
            say!(Level::Error, "{what}");
            self.0 = Some(what);
        }
    }

    fn is_over(&mut self) {
        self.0 = None;
    }
}

/// The file that is written.
struct Open {
    file: LogFile,
    /// As it was when it was opened, and how much longer it is by now; not for pipes and devices.
    state: Option<LogState>,
    opened_unix_ms: u64,
    /// The last write ended within a line.
    is_torn: bool,
}

impl Open {
    /// Whether it is a regular file that no path names: what is written to it is lost.
    fn is_removed(&self) -> bool {
        self.state.is_some() && !self.file.has_name()
    }

    /// Takes so many bytes of a torn line off the end, if it is a regular file and they are still
    /// its end; whether it could.
    fn cut(&mut self, bytes: u64) -> bool {
        let Some(state) = &mut self.state else { return false };
        let is_cut = self.file.cut(bytes).is_ok();
        if is_cut {
            state.len = state.len.saturating_sub(bytes);
        }
        is_cut
    }
}

impl Appender {
    /// Of no log yet.
    pub(super) fn new() -> Appender {
        Appender { kinds: Vec::new() }
    }

    /// Takes the lines of one more kind of logs.
    pub(super) fn add(&mut self, which: Which, logs: &AccessLogs, settings: &LogSettings) {
        let LogSettings { bytes_max, ms_max, keep, .. } = *settings;
        let log = |(number, to): (usize, &AccessLog)| {
            let name = match (which, to.path()) {
                (Which::Slow, _) => "slow log".to_owned(),
                (Which::Access, Some(path)) if !logs.is_of_server(number) => {
                    format!("access log {}", path.display())
                }
                (Which::Access, _) => "access log".to_owned(),
            };
            Log { name, which, to: to.clone(), bytes_max, ms_max, keep }
        };
        let logs = logs.all().iter().enumerate().map(log).collect();
        self.kinds.push(Kind { which, intake: Intake::default(), logs });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The files that are appended to.
    pub fn paths(&self) -> Vec<&Path> {
        let logs = self.kinds.iter().flat_map(|kind| &kind.logs);
        logs.filter_map(|log| log.to.path()).collect()
    }

    /// Where a new worker sends its lines, by ends of its own; `logs` are those that are written.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn sender(&self, logs: &AccessLogs, settings: &LogSettings) -> io::Result<LogSender> {
        let admit = |which| {
            let kind = self.kinds.iter().find(|kind| kind.which == which);
            kind.map(|kind| kind.intake.admit(CHANNEL_BYTES)).transpose()
        };
        Ok(LogSender::new((admit(Which::Access)?, admit(Which::Slow)?), logs, settings))
    }

    /// The ways of a log process that is about to be forked, which it must keep.
    ///
    /// # Errors
    /// When descriptors are out.
    pub fn renew(&self) -> io::Result<Vec<Channel>> {
        self.kinds.iter().map(|kind| kind.intake.renew()).collect()
    }

    /// Hands over to the log process what found no room before; whether some is left.
    pub fn hand_over(&self) -> bool {
        self.kinds.iter().filter(|kind| kind.intake.hand_over()).count() > 0
    }

    /// In the log process, by its ways: appends until no line can come any more and all are
    /// written. Counts in block `block`. Blocks.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn run(&self, ways: &[Channel], blocks: &Blocks, block: usize) -> io::Result<()> {
        let told = Told { signals: Signals::block()?, reopens: Cell::new(0) };
        let mut mechanism = readiness::open("epoll")?;
        mechanism.add(told.signals.as_fd(), SIGNALS, Interest::READ)?;
        let mut desks = Vec::new();
        for (at, (kind, way)) in self.kinds.iter().zip(ways).enumerate() {
            let inbox = Inbox::open(way, (at as u64) << CHANNELS_BITS, &mut *mechanism)?;
            let runs: Vec<Run<'_>> = kind.logs.iter().map(|log| Run::new(log, &told)).collect();
            let touched = Vec::with_capacity(runs.len());
            desks.push((inbox, Desk { which: kind.which, runs, touched }));
        }
        let (process, worker) = (process::own_id(), None);
        blocks.set_owner(block, Owner { generation: 0, worker, process });
        let (mut events, mut batch) = (Vec::new(), vec![0; BATCH_BYTES_MAX]);
        let mut tally = Tally::default();
        while !desks.iter().all(|(inbox, _)| inbox.is_over()) {
            let runs = desks.iter().flat_map(|(_, desk)| &desk.runs);
            let waits = runs.map(Run::wait_ms).filter(|ms| *ms >= 0);
            mechanism.wait(&mut events, waits.min().unwrap_or(-1))?;
            if events.iter().any(|event| event.token == SIGNALS) {
                told.hear();
            }
            for run in desks.iter_mut().flat_map(|(_, desk)| &mut desk.runs) {
                run.obey();
                run.put_aside_when_due(0);
            }
            for event in &events {
                let found = desks.iter_mut().find(|(inbox, _)| inbox.has(event.token));
                let Some((inbox, desk)) = found else { continue };
                inbox.heed(event.token, &mut *mechanism, BATCHES_PER_TURN, |channel| {
                    let len = channel.receive_now(&mut batch)?;
                    desk.append(&batch[..len], &mut tally);
                    Ok(len == 0)
                });
                blocks.publish(block, Writers::One, &mut tally);
            }
        }
        Ok(())
    }
}

impl Desk<'_> {
    /// Appends a batch of lines.
    fn append(&mut self, batch: &[u8], tally: &mut Tally) {
        match (self.which, &mut self.runs[..]) {
            // The end of a channel.
            _ if batch.is_empty() => {}
            (Which::Slow, [run]) => run.append(batch, tally),
            _ => self.sort(batch, tally),
        }
    }

    /// Appends to each log its lines of a batch, in their order. What has no tag, or that of no
    /// log, is lost.
    fn sort(&mut self, batch: &[u8], tally: &mut Tally) {
        let Desk { runs, touched, .. } = self;
        let room = (BATCH_BYTES_MAX / runs.len().max(1)).max(LINES_BYTES_MIN);
        for line in batch.split_inclusive(|byte| *byte == b'\n') {
            let known = Tag::split(line).filter(|(number, _)| *number < runs.len());
            let Some((number, line)) = known else {
                tally.add(Counter::AccessLogLost, 1);
                continue;
            };
            let lines = &mut runs[number].lines;
            if lines.is_empty() {
                lines.reserve(room);
                touched.push(number);
            }
            lines.extend_from_slice(line);
        }
        for number in touched.drain(..) {
            let run = &mut runs[number];
            let mut lines = std::mem::take(&mut run.lines);
            run.append(&lines, tally);
            lines.clear();
            lines.shrink_to(room);
            run.lines = lines;
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: &'a Log, told: &'a Told) -> Run<'a> {
        let (reopened, lines) = (told.reopens.get(), Vec::new());
        let mut run = Run {
            plan,
            told,
            reopened,
            file: None,
            open_ms: Some(0),
            aside_ms: 0,
            yielded: 0,
            look_ms: 0,
            lines,
            writing: Trouble::default(),
            placing: Trouble::default(),
        };
        run.open();
        run
    }
}

impl Run<'_> {
    /// Opens the file anew if that was said, or could not be done before; true when it did.
    fn obey(&mut self) -> bool {
        let reopens = self.told.reopens.get();
        let is_told = std::mem::replace(&mut self.reopened, reopens) != reopens;
        if is_told && self.plan.to.path().is_some() {
            self.open_ms = Some(0);
        }
        self.open_ms.is_some_and(|due_ms| clock::monotonic_ms() >= due_ms) && self.open()
    }

    /// Appends a batch of whole lines. Waits for a pipe that is full; what cannot be written at
    /// all is counted.
    fn append(&mut self, batch: &[u8], tally: &mut Tally) {
        self.obey();
        self.put_aside_when_due(batch.len() as u64);
        let mut at = 0;
        while at < batch.len() {
            let Some(open) = &mut self.file else { break };
            if std::mem::take(&mut open.is_torn) && open.file.append(b"\n").is_err() {
                open.is_torn = true;
                break;
            }
            match open.file.append(&batch[at..]) {
                Ok(0) => break,
                Ok(n) => {
                    if let Some(state) = &mut open.state {
                        state.len += n as u64;
                    }
                    at += n;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.wait_for_room() {
                        // Another file begins with a whole line.
                        at = line_start(batch, at);
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    break;
                }
            }
        }
        let whole = line_start(batch, at);
        let is_own = self.plan.to.path().is_some();
        if at > whole
            && let Some(open) = &mut self.file
        {
            // What cannot be taken back is ended before the next line.
            open.is_torn = !(is_own && open.cut((at - whole) as u64));
        }
        let lost = count_lines(&batch[whole..]);
        match self.plan.which {
            Which::Access => {
                tally.add(Counter::AccessLogLost, lost);
                tally.add(Counter::AccessLogLines, count_lines(&batch[..whole]));
            }
            Which::Slow => tally.add(Counter::SlowLogLost, lost),
        }
        if lost == 0 {
            self.writing.is_over();
        }
    }

    /// Opens the file, in the place of the one that is open; true when it did. Where it cannot, the
    /// lines go on to the one that is open: no line is lost that can be kept.
    fn open(&mut self) -> bool {
        let file = match &self.plan.to {
            AccessLog::File(path) => LogFile::open(path),
            AccessLog::Stderr => process::duplicate_stderr().map(LogFile::of),
            AccessLog::Stdout | AccessLog::Off => process::duplicate_stdout().map(LogFile::of),
        };
        match file {
            Ok(file) => {
                let state = file.state().ok().filter(|state| state.is_regular);
                let opened_unix_ms = clock::unix_ms();
                self.file = Some(Open { file, state, opened_unix_ms, is_torn: false });
                (self.open_ms, self.yielded) = (None, 0);
                self.placing.is_over();
                true
            }
            Err(error) => {
                self.file.take_if(|open| open.is_removed());
                self.open_ms = Some(clock::monotonic_ms() + AGAIN_MS);
                self.placing.say(match log_file::has_no_reader(&error) {
                    true => format!("the {} has no reader", self.plan.name),
                    false => format!("the {} cannot be opened: {error}", self.plan.name),
                });
                false
            }
        }
    }

    /// It cannot be written.
    fn failed(&mut self, error: &io::Error) {
        // A pipe whose reader has gone is opened again for the next.
        if error.kind() == ErrorKind::BrokenPipe && self.plan.to.path().is_some() {
            (self.file, self.open_ms) = (None, Some(0));
        }
        let name = &self.plan.name;
        self.writing.say(format!("the {name} cannot be written, and lines are lost: {error}"));
    }

    /// Waits until a pipe has room or there is a signal. Blocks. True when another file is open.
    fn wait_for_room(&mut self) -> bool {
        let Some(open) = &self.file else { return true };
        let wait_ms = self.open_ms.map_or(-1, |_| AGAIN_MS as i32);
        let waited = readiness::open("poll").and_then(|mut mechanism| {
            mechanism.add(open.file.as_fd(), FILE, Interest::WRITE)?;
            mechanism.add(self.told.signals.as_fd(), SIGNALS, Interest::READ)?;
            mechanism.wait(&mut Vec::new(), wait_ms)
        });
        if let Err(error) = waited {
            self.failed(&error);
            (self.file, self.open_ms) = (None, Some(0));
        }
        self.told.hear();
        self.obey()
    }

    /// How long to wait for lines before a file is too old.
    fn wait_ms(&self) -> i32 {
        let due = self.file.as_ref().and_then(|open| self.old_unix_ms(open));
        let left = due.map(|due| due.saturating_sub(clock::unix_ms()).clamp(AGAIN_MS, LOOK_MS_MAX));
        left.map_or(-1, |ms| ms as i32)
    }

    /// When a file is too old; `None` for one that may stay, or is empty.
    fn old_unix_ms(&self, open: &Open) -> Option<u64> {
        let state = open.state.filter(|state| state.len > 0)?;
        Some(state.born_ms.unwrap_or(open.opened_unix_ms) + self.plan.ms_max?)
    }

    /// Puts the file aside when it is too old, or would be too long with so many bytes more.
    fn put_aside_when_due(&mut self, more: u64) {
        let (Some(open), Some(path)) = (&self.file, self.plan.to.path()) else { return };
        let is_ever = self.plan.bytes_max.is_some() || self.plan.ms_max.is_some();
        // One that was kept since the path cannot be opened is not at the path.
        if !is_ever || open.state.is_none() || self.open_ms.is_some() {
            return;
        }
        if self.look_ms <= clock::monotonic_ms() {
            self.look_ms = clock::monotonic_ms() + AGAIN_MS;
            // Two processes append for a while, as in an upgrade. What the other has put aside may
            // be gone soon.
            if let Ok(false) = open.file.is_at(path) {
                self.open();
                return;
            }
        }
        let Some(state) = open.state.filter(|state| state.len > 0) else { return };
        let is_long = self.plan.bytes_max.is_some_and(|most| more > 0 && state.len + more > most);
        let is_old = self.old_unix_ms(open).is_some_and(|due| due <= clock::unix_ms());
        let now_ms = clock::monotonic_ms();
        if (is_long || is_old) && now_ms >= self.aside_ms {
            let yields = self.yielded < YIELDS;
            let done = open.file.put_aside(path, self.plan.keep, yields);
            if !matches!(done, Ok(true)) {
                self.aside_ms = now_ms + AGAIN_MS;
            }
            match done {
                Ok(true) => {
                    self.open();
                    self.yielded = 0;
                    if !yields {
                        let why = "another process held its lock";
                        let name = &self.plan.name;
                        self.placing.say(format!("the {name} was put aside late: {why}"));
                    }
                }
                Ok(false) => self.yielded += 1,
                Err(error) => {
                    let name = &self.plan.name;
                    self.placing.say(format!("the {name} cannot be put aside: {error}"));
                }
            }
        }
    }
}

/// Where the line begins that byte `at` belongs to.
fn line_start(batch: &[u8], at: usize) -> usize {
    batch[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |feed| feed + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Runs with a log at this path, of few lines in each file.
    fn with_log(path: &Path, check: impl FnOnce(&mut Run<'_>, &mut Tally)) {
        let log = Log {
            name: "access log".to_owned(),
            which: Which::Access,
            to: AccessLog::File(path.to_owned()),
            bytes_max: Some(4),
            ms_max: None,
            keep: 3,
        };
        let told = Told { signals: Signals::block().unwrap(), reopens: Cell::new(0) };
        check(&mut Run::new(&log, &told), &mut Tally::default());
    }

    #[test]
    fn a_reader_that_locks_the_file_keeps_it_there_for_a_while_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        with_log(&path, |run, tally| {
            let reader = fs::File::open(&path).unwrap();
            reader.lock().unwrap();
            run.append(b"1\n", tally);
            for line in ["22\n"; YIELDS as usize] {
                run.aside_ms = 0;
                run.append(line.as_bytes(), tally);
                assert!(!path.with_extension("1").exists());
                assert_eq!(run.placing.0, None);
            }
            run.append(b"3\n", tally);
            assert!(!path.with_extension("1").exists(), "it waits before it tries again");
            run.aside_ms = 0;
            run.put_aside_when_due(2);
            let said = run.placing.0.clone().unwrap();
            assert!(said.ends_with("another process held its lock"), "{said}");
            run.append(b"4\n", tally);
            assert_eq!(fs::read_to_string(&path).unwrap(), "4\n");
            let aside = fs::read_to_string(path.with_extension("1")).unwrap();
            assert_eq!(aside, format!("1\n{}3\n", "22\n".repeat(YIELDS as usize)));
            assert_eq!(run.yielded, 0);
            run.append(b"5555\n", tally);
            assert_eq!(fs::read_to_string(&path).unwrap(), "5555\n", "the next one at once");
        });
    }

    #[test]
    fn what_cannot_be_opened_anew_is_written_on() {
        let dir = tempfile::tempdir().unwrap();
        let [logs, old] = ["logs", "old"].map(|name| dir.path().join(name));
        fs::create_dir(&logs).unwrap();
        let path = logs.join("log");
        with_log(&path, |run, tally| {
            run.append(b"1\n", tally);
            fs::rename(&logs, &old).unwrap();
            fs::create_dir_all(&path).unwrap();
            run.look_ms = 0;
            for line in ["2\n", "3\n", "4\n", "5\n"] {
                run.append(line.as_bytes(), tally);
            }
            assert_eq!(fs::read_to_string(old.join("log")).unwrap(), "1\n2\n3\n4\n5\n");
            let said = run.placing.0.clone().unwrap();
            assert!(said.starts_with("the access log cannot be opened: "), "{said}");
            fs::remove_dir(&path).unwrap();
            run.append(b"6\n", tally);
            assert!(!path.exists(), "it waits before it tries again");
            run.open_ms = Some(0);
            run.append(b"7\n", tally);
            assert_eq!(fs::read_to_string(&path).unwrap(), "7\n");
            assert_eq!(run.placing.0, None);
        });
    }

    #[test]
    fn a_path_that_cannot_be_looked_at_tells_nothing_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let [logs, old] = ["logs", "old"].map(|name| dir.path().join(name));
        fs::create_dir(&logs).unwrap();
        with_log(&logs.join("log"), |run, tally| {
            run.append(b"1\n", tally);
            fs::rename(&logs, &old).unwrap();
            fs::write(&logs, "").unwrap();
            run.look_ms = 0;
            run.append(b"2\n", tally);
            assert_eq!((run.open_ms, &run.placing.0), (None, &None), "it was not opened");
            run.append(b"3\n", tally);
            let said = run.placing.0.clone().unwrap();
            assert!(said.starts_with("the access log cannot be put aside: "), "{said}");
            assert_eq!(fs::read_to_string(old.join("log")).unwrap(), "1\n2\n3\n");
        });
    }

    #[test]
    fn lines_do_not_go_to_a_file_that_was_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        with_log(&path, |run, tally| {
            fs::remove_file(&path).unwrap();
            fs::create_dir(&path).unwrap();
            run.look_ms = 0;
            run.append(b"1\n2\n", tally);
            assert_eq!(tally.counter(Counter::AccessLogLost), 2);
        });
    }
}
