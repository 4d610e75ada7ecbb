//! What a site says about its backends.

use std::path::PathBuf;

/// Programs that are started for each request (RFC 3875).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgiSettings {
    /// The path; it and all beneath it are meant.
    pub path: String,
    /// The program that answers for all of them.
    pub program: Option<PathBuf>,
    /// Or the directory in which programs are looked for by the path.
    pub root: Option<PathBuf>,
    /// Variables of its environment beside those of RFC 3875.
    pub environment: Vec<(String, String)>,
    /// What it may use.
    pub limits: BackendLimits,
}

impl CgiSettings {
    /// Whether what it names is there: else the key of the setting that is wrong, and why. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// The last part of the key, and a sentence.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        super::spawner::check(self)
    }
}

/// What a backend may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendLimits {
    /// Time until it has begun to answer once it has the request, in milliseconds.
    pub answer_ms: u64,
    /// Time between two pieces of its answer, in milliseconds.
    pub idle_ms: u64,
    /// Time for all of its answer, in milliseconds; `None` is no limit.
    pub whole_ms: Option<u64>,
    /// Longest answer, in bytes; `None` is no limit.
    pub output_max: Option<u64>,
    /// Programs of this rule that run at the same time, for all workers.
    pub processes_max: usize,
    /// Address space of each of its processes, in bytes; `None` is no limit.
    pub memory_bytes: Option<u64>,
    /// Processor time of each of its processes, in seconds; `None` is no limit.
    pub cpu_s: Option<u64>,
}

impl Default for BackendLimits {
    fn default() -> BackendLimits {
        BackendLimits {
            answer_ms: 60_000,
            idle_ms: 60_000,
            whole_ms: None,
            output_max: None,
            processes_max: 64,
            memory_bytes: None,
            cpu_s: None,
        }
    }
}
