//! Where the settings of a running server come from: the program that has it run knows the file,
//! the flags and how values are written; the master knows when to ask.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use flyball_arch::settings::Settings;

/// How a running server takes a change of a setting that is asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Running workers go by the new value.
    InPlace,
    /// A new generation of workers goes by it.
    Generation,
    /// It does not: the configuration must be read again.
    Reload,
}

/// A setting of which a running server takes a change by itself.
#[derive(Clone, Debug)]
pub struct Changeable {
    /// Its key.
    pub key: &'static str,
    /// The form of a valid value in words, with its bounds or its choices.
    pub form: String,
    /// Its default, as it would be written.
    pub default: &'static str,
    /// Whether it changes in place or by a generation.
    pub changes: Changes,
}

impl Changes {
    /// What it is called.
    pub fn label(self) -> &'static str {
        match self {
            Changes::InPlace => "in place",
            Changes::Generation => "generation",
            Changes::Reload => "reload",
        }
    }
}

/// The configuration of a server, as its master asks for it. What was asked for in an earlier call
/// may change what a later one gives: only the newest settings that took effect count.
pub trait Configuration: fmt::Debug {
    /// The file that it is read from, by its whole path, if there is one.
    fn file(&self) -> Option<PathBuf>;

    /// The path at which the program of this server is found, whatever is there by now, and the
    /// words that it was started with, of which the first is its name.
    fn program(&self) -> (PathBuf, Vec<OsString>);

    /// Reads the configuration again, as it was read at the start: the same file, and the same
    /// flags on top. Blocks on the disk.
    ///
    /// # Errors
    /// Why it cannot be used, for its author: lines with file, line and key.
    fn load(&mut self) -> Result<Settings, String>;

    /// These settings with one changed, as `--set KEY=VALUE` would.
    ///
    /// # Errors
    /// Why not: there is no such key, or the value is not one of its.
    fn changed(&self, settings: &Settings, key: &str, value: &str) -> Result<Settings, String>;

    /// What is said of a key that no setting has.
    fn unknown(&self, key: &str) -> String;

    /// How a running server takes a change of this setting.
    fn changes(&self, key: &str) -> Changes;

    /// The settings that a running server takes changes of, all that are not for a reload.
    fn changeable(&self) -> Vec<Changeable>;

    /// The keys of all settings.
    fn keys(&self) -> Vec<&'static str>;

    /// What was written for this key in the configuration that was loaded last, or its default.
    fn written(&self, key: &str) -> Option<String>;
}
