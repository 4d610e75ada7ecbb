//! What the server says on standard error, and how much of it: a level that all its processes have
//! in common, so that one change of it is a change for all of them.
//!
//! A message may hold what a client wrote, and is read in a terminal: [`write`] escapes what a
//! terminal obeys and what deceives the eye, in every message. Nothing else of the server writes to
//! standard error.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use rustix::fs::fstat;

use crate::clock;
use crate::shared::SharedCounters;

/// How much a message matters, and up to where messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something failed that somebody has to mend.
    Error,
    /// Something failed or is short, and the server goes on by itself.
    Warn,
    /// What the server does that is not every day's work.
    #[default]
    Info,
    /// Each step of the master: processes, signals, questions.
    Debug,
}

impl Level {
    /// All of them, from the least to the most that is written.
    pub const ALL: [Level; 4] = [Level::Error, Level::Warn, Level::Info, Level::Debug];

    /// As it stands in settings.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

/// The level of this process and of all that it forked since [`share`].
static SHARED: OnceLock<SharedCounters> = OnceLock::new();

/// The level until then.
static OWN: AtomicU64 = AtomicU64::new(Level::Info as u64);

/// Whether lines begin with the time.
static IS_STAMPED: AtomicBool = AtomicBool::new(false);

/// From now on lines of this process, and of those that it forks, begin with the time in UTC,
/// unless the journal takes them, which has its own.
pub fn stamp() {
    let journal = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    IS_STAMPED.store(!is_stderr(&journal), Relaxed);
}

/// Whether standard error is what this says: the numbers of a device and of an inode, with a colon
/// between them (systemd.exec(5)).
fn is_stderr(stream: &str) -> bool {
    let own = fstat(io::stderr()).map(|own| format!("{}:{}", own.st_dev, own.st_ino));
    own.is_ok_and(|own| own == stream)
}

/// So many milliseconds since 1970 as `2026-11-21T09:00:00.123Z` and a blank (RFC 3339).
fn stamp_of(unix_ms: u64) -> String {
    let (seconds, ms) = ((unix_ms / 1_000) as libc::time_t, unix_ms % 1_000);
    // SAFETY: all of it is numbers and a pointer that is never followed, for which zero is valid.
    let mut utc: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to values that live for the call, and it keeps none.
    if unsafe { libc::gmtime_r(&raw const seconds, &raw mut utc) }.is_null() {
        return String::new();
    }
    let (year, month, day) = (1900 + utc.tm_year, 1 + utc.tm_mon, utc.tm_mday);
    let (hour, minute, second) = (utc.tm_hour, utc.tm_min, utc.tm_sec);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z ")
}

fn word() -> &'static AtomicU64 {
    SHARED.get().and_then(|shared| shared.all().first()).unwrap_or(&OWN)
}

/// From now on processes that are forked have their level in common with this one. To be called
/// before the first fork.
///
/// # Errors
/// When memory is out.
pub fn share() -> io::Result<()> {
    if SHARED.get().is_none() {
        let shared = SharedCounters::new(1)?;
        shared.all()[0].store(OWN.load(Relaxed), Relaxed);
        let _ = SHARED.set(shared);
    }
    Ok(())
}

/// Messages up to this level are written from now on, by all processes that share it.
pub fn set_level(level: Level) {
    word().store(level as u64, Relaxed);
}

/// Whether messages of this level are written.
pub fn says(level: Level) -> bool {
    level as u64 <= word().load(Relaxed)
}

/// Writes a message of this level as a line, if such are written: see [`say!`](crate::say).
/// Blocks as long as standard error does.
pub fn say(level: Level, message: fmt::Arguments<'_>) {
    if says(level) {
        write(message);
    }
}

/// Writes a line whatever the level is: what somebody has ordered, and what was answered. One
/// call, so that the lines of several processes do not mix; an error has nowhere to go.
pub fn write(message: fmt::Arguments<'_>) {
    let stamp = match IS_STAMPED.load(Relaxed) {
        true => stamp_of(clock::unix_ms()),
        false => String::new(),
    };
    let _ = io::stderr().lock().write_all((stamp + &line(message)).as_bytes());
}

/// The line of a message.
fn line(message: fmt::Arguments<'_>) -> String {
    let mut line = Escaped(String::from("flyball: "));
    // Only a value that cannot be shown makes it fail: what was shown before it is told.
    let _ = line.write_fmt(message);
    line.0 + "\n"
}

/// Lines that another process wrote, for a terminal: escaped as messages are.
pub fn shown(lines: &str) -> String {
    let mut shown = Escaped(String::new());
    for line in lines.split_inclusive('\n') {
        let text = line.strip_suffix('\n');
        // Writing to a string cannot fail.
        let _ = shown.write_str(text.unwrap_or(line));
        shown.0.extend(text.map(|_| '\n'));
    }
    shown.0
}

/// A text of another process that stands in a line of a terminal: escaped as messages are, and
/// so are the ends of its own lines.
pub fn shown_in_line(text: &str) -> String {
    let mut shown = Escaped(String::new());
    // Writing to a string cannot fail.
    let _ = shown.write_str(text);
    shown.0
}

/// Text in which nothing is left that is not shown as it is.
struct Escaped(String);

impl fmt::Write for Escaped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match is_hidden(character) {
                true => write!(self.0, "\\u{{{:x}}}", u32::from(character))?,
                false => self.0.push(character),
            }
        }
        Ok(())
    }
}

/// Whether a character is an order to a terminal, or changes how others are shown: controls of both
/// kinds, ends of lines and paragraphs, characters without a width, and those that turn the
/// direction of writing.
fn is_hidden(character: char) -> bool {
    (character.is_control() && character != '\t')
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Writes a message on standard error, if messages of its level are written.
///
/// ```
/// # use flyball_sys::{error_log::Level, say};
/// say!(Level::Debug, "worker {} has ended", 3);
/// ```
#[macro_export]
macro_rules! say {
    ($level:expr, $($message:tt)*) => {
        $crate::error_log::say($level, ::std::format_args!($($message)*))
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Forked, exit_now, fork, wait_for};

    #[test]
    fn a_level_that_changes_is_known_to_processes_that_were_forked_before() {
        share().unwrap();
        set_level(Level::Warn);
        let (told, tells) = rustix::pipe::pipe().unwrap();
        match fork().unwrap() {
            Forked::Child => {
                let mut byte = [0];
                let came = rustix::io::read(&told, &mut byte).is_ok();
                let knows = says(Level::Debug) && !(came && byte == [0]);
                exit_now(if knows { 7 } else { 1 })
            }
            Forked::Parent(child) => {
                assert!(says(Level::Error) && says(Level::Warn) && !says(Level::Info));
                set_level(Level::Debug);
                rustix::io::write(&tells, b"x").unwrap();
                assert_eq!(wait_for(child).unwrap(), 7);
                set_level(Level::Info);
            }
        }
    }

    #[test]
    fn a_message_is_one_line_that_no_terminal_obeys() {
        let hostile = "a\u{9b}2J\x1b[2J\r\nb\u{202e}c\u{200b}\u{2066}\x7f\0";
        let shown = line(format_args!("GET /{hostile} {}", "d\u{2028}e"));
        let start = r"flyball: GET /a\u{9b}2J\u{1b}[2J\u{d}\u{a}b";
        let end = r"\u{202e}c\u{200b}\u{2066}\u{7f}\u{0} d\u{2028}e";
        assert_eq!(shown, format!("{start}{end}\n"));
        let plain = "a path with\ta tab, an \u{e9}, \u{4e16} and \u{fffd} \\x1b";
        assert_eq!(line(format_args!("{plain}")), format!("flyball: {plain}\n"));
    }

    #[test]
    fn the_time_of_a_line_is_that_of_utc() {
        assert_eq!(stamp_of(784_111_777_005), "1994-11-06T08:49:37.005Z ");
        assert_eq!(stamp_of(1_709_164_800_999), "2024-02-29T00:00:00.999Z ");
    }

    #[test]
    fn the_journal_is_known_by_its_numbers() {
        let own = fstat(io::stderr()).unwrap();
        assert!(is_stderr(&format!("{}:{}", own.st_dev, own.st_ino)));
        for other in [String::new(), "1".into(), format!("{}:{}", own.st_dev, own.st_ino + 1)] {
            assert!(!is_stderr(&other), "{other}");
        }
    }

    #[test]
    fn lines_stay_lines_when_they_are_shown() {
        assert_eq!(shown("a\n\nb\x1b[2J\r\n\u{9b}"), "a\n\nb\\u{1b}[2J\\u{d}\n\\u{9b}");
        assert_eq!(shown(""), "");
    }

    #[test]
    fn levels_are_in_order_and_have_names() {
        assert!(Level::ALL.is_sorted());
        assert_eq!(Level::ALL.map(Level::name), ["error", "warn", "info", "debug"]);
        assert_eq!(Level::default(), Level::Info);
    }
}
