//! The access log: lines are gathered by each thread of control and handed over in batches to a
//! process of their own, which writes them (S3, section 4: batched and lazy, off the path).
//!
//! Writing to a file may block for long, and a worker may have one thread or must not have more
//! when it forks: so neither that thread nor another of its process writes. A batch crosses to the
//! log process as one record, by a call that never waits. That one process alone has the file open:
//! lines are never mixed, it opens the file anew when it is told to, rotates it, and is the only
//! one that needs the right to.
//!
//! Every step is bounded, and what finds no room is counted, never waited for.

mod appender;
mod format;
mod logs;
mod open;
mod settings;
mod writer;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use flyball_sys::channel::Channel;
use flyball_sys::log_file;

use appender::Which;
use logs::Targets;

pub use appender::Appender;
pub use flyball_sys::log_file::AccessLog;
pub use format::{FormatError, LogFormat};
pub use logs::{ACCESS_LOGS_MAX, AccessLogs};
pub use open::{OpenLines, Place};
pub use settings::LogSettings;
pub use writer::{AccessLogWriter, Answered};

use crate::trace::SlowSender;

/// Longest batch of lines, in bytes.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Room asked for the batches of one worker on their way to the log process, in bytes. The kernel
/// gives at most twice what `net.core.wmem_max` says.
const CHANNEL_BYTES: usize = 1024 * 1024;

/// Where one worker sends its lines.
#[derive(Clone, Debug)]
pub struct LogSender {
    on: Option<Arc<Lines>>,
    slow: Option<SlowSender>,
    worker: usize,
}

/// What all threads of a process share.
#[derive(Debug)]
struct Lines {
    format: LogFormat,
    targets: Targets,
    channel: Channel,
    /// Bytes that may wait in this process beyond one batch for each thread, as they were taken.
    waiting: AtomicUsize,
}

/// Opens the logs: what takes the lines of workers, unless all logs are off.
///
/// # Errors
/// With the key and the path of the log whose file cannot be opened for appending. A named pipe
/// that has no reader yet is no error.
pub fn open(
    access: &AccessLogs,
    settings: &LogSettings,
) -> Result<Option<Appender>, (&'static str, String)> {
    let mut appender = Appender::new();
    let numbered = access.all().iter().enumerate();
    let mut logs: Vec<(&str, &AccessLog)> =
        numbered.map(|(at, log)| (access.key_of(at), log)).collect();
    if !logs.is_empty() {
        appender.add(Which::Access, access, settings);
    }
    if settings.slow != AccessLog::Off {
        logs.push(("slow-log", &settings.slow));
        appender.add(Which::Slow, &AccessLogs::of(&settings.slow, []), settings);
    }
    for (key, log) in logs {
        if let Some(path) = log.path() {
            match log_file::LogFile::open(path) {
                Err(error) if !log_file::has_no_reader(&error) => {
                    return Err((key, format!("{}: {error}", path.display())));
                }
                _ => {}
            }
        }
    }
    Ok(Some(appender).filter(|appender| !appender.is_empty()))
}

impl LogSender {
    /// No log.
    pub fn off() -> LogSender {
        LogSender { on: None, slow: None, worker: 0 }
    }

    /// Lines of this format and this threshold to these logs, by ends of one worker: none where it
    /// is given none.
    fn new(
        (access, slow): (Option<Channel>, Option<Channel>),
        logs: &AccessLogs,
        settings: &LogSettings,
    ) -> LogSender {
        let on = access.map(|channel| {
            let (format, targets) = (settings.format.clone(), logs.targets().clone());
            Arc::new(Lines { format, targets, channel, waiting: AtomicUsize::new(0) })
        });
        let slow = slow.map(|channel| SlowSender::new(channel, settings.slow_ms));
        LogSender { on, slow, worker: 0 }
    }

    /// The same, in the worker of this number.
    pub fn of_worker(&self, worker: usize) -> LogSender {
        LogSender { worker, ..self.clone() }
    }

    /// Where lines of slow requests go, if anywhere.
    pub fn slow(&self) -> Option<SlowSender> {
        self.slow.clone()
    }
}
