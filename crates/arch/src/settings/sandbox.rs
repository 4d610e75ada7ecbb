//! What the processes of a server give up, as it is written in its settings.

use std::path::PathBuf;

use flyball_sys::sandbox::Violation;

/// What is taken away, as it was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether anything is, and whether all of it must be.
    pub mode: SandboxMode,
    /// What a system call leads to that is not allowed; `None` ends the process in a build for
    /// development, and refuses the call in others.
    pub forbidden_call: Option<Violation>,
    /// Who workers become; `None` is found where the superuser has a configuration file.
    pub user: Option<String>,
    /// With which group; `None` is that of the user.
    pub group: Option<String>,
    /// Files and directories beside the roots that workers may read.
    pub read: Vec<PathBuf>,
    /// Whether there is a configuration file.
    pub by_file: bool,
}

/// Whether rights are taken away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// All of them, or the server does not start.
    Required,
    /// As far as the kernel can.
    #[default]
    On,
    /// Only those of another user.
    Off,
}
