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
mod text;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use flyball_sys::channel::Channel;
use flyball_sys::log_file;

pub(crate) use appender::Appender;
pub use format::{FormatError, LogFormat};
pub use writer::AccessLogWriter;

use crate::settings::{AccessLog, Settings};

/// Longest batch of lines, in bytes.
const BATCH_BYTES_MAX: usize = 64 * 1024;

/// Room asked for batches on their way to the log process, in bytes, for all workers together. The
/// kernel gives at most twice what `net.core.wmem_max` says.
const CHANNEL_BYTES: usize = 1024 * 1024;

/// Where workers send their lines; made before the first fork.
#[derive(Clone, Debug)]
pub struct LogSender {
    on: Option<Arc<Lines>>,
    worker: usize,
}

/// What all threads of a process share.
#[derive(Debug)]
struct Lines {
    format: LogFormat,
    channel: Arc<Channel>,
    /// Bytes that may wait in this process beyond one batch for each thread, as they were taken.
    waiting: AtomicUsize,
}

/// Opens the log: where workers send lines, and who takes them; neither when it is off.
///
/// # Errors
/// When the file cannot be opened for appending. A named pipe that nobody reads yet is no error.
pub(crate) fn open(settings: &Settings) -> io::Result<(LogSender, Option<Appender>)> {
    if settings.access_log == AccessLog::Off {
        return Ok((LogSender::off(), None));
    }
    if let AccessLog::File(path) = &settings.access_log {
        match log_file::LogFile::open(path) {
            Err(error) if !log_file::has_no_reader(&error) => return Err(error),
            _ => {}
        }
    }
    let (sender, receiver) = Channel::pair()?;
    sender.set_nonblocking()?;
    sender.set_room(CHANNEL_BYTES)?;
    receiver.set_nonblocking()?;
    let format = settings.log.format.clone();
    let lines = Lines { format, channel: Arc::new(sender), waiting: AtomicUsize::new(0) };
    let sender = LogSender { on: Some(Arc::new(lines)), worker: 0 };
    Ok((sender, Some(Appender::new(settings, receiver))))
}

impl LogSender {
    /// No log.
    pub fn off() -> LogSender {
        LogSender { on: None, worker: 0 }
    }

    /// The same, with lines of another format.
    pub(crate) fn with_format(&self, format: &LogFormat) -> LogSender {
        let on = self.on.as_ref().map(|lines| {
            let (format, channel) = (format.clone(), Arc::clone(&lines.channel));
            Arc::new(Lines { format, channel, waiting: AtomicUsize::new(0) })
        });
        LogSender { on, worker: self.worker }
    }

    /// The same, in the worker of this number.
    pub(crate) fn of_worker(&self, worker: usize) -> LogSender {
        LogSender { on: self.on.clone(), worker }
    }
}
