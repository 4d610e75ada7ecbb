//! What is in the logs, and how long their files grow.

use flyball_sys::error_log::Level;
use flyball_sys::log_file::AccessLog;

use super::LogFormat;

/// How much is logged, what a line of the access log holds, and how long its files grow.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// How much the server says on standard error.
    pub level: Level,
    /// What a line of the access log holds.
    pub format: LogFormat,
    /// Length that a file of the access log does not exceed, in bytes; `None` lets it grow.
    pub bytes_max: Option<u64>,
    /// Age at which a file of the access log is put aside, in milliseconds; `None` keeps it.
    pub ms_max: Option<u64>,
    /// Files of the access log that are kept beside the one that is written.
    pub keep: usize,
    /// Where lines of slow requests go.
    pub slow: AccessLog,
    /// How long a request takes at least that is slow, in milliseconds.
    pub slow_ms: u64,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings {
            level: Level::default(),
            format: LogFormat::default(),
            bytes_max: None,
            ms_max: None,
            keep: 7,
            slow: AccessLog::Off,
            slow_ms: 500,
        }
    }
}
