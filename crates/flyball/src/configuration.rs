//! The configuration of a running server: the command line that it was started with, and the file
//! that it names, read again when the master asks.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use flyball_arch::Settings;
use flyball_server::{Changeable, Changes, Configuration};

use crate::cli::{self, Command};
use crate::settings::{Raw, SETTINGS, Setting, Typed, find, nearest, resolve};

/// A command line of `flyball serve`, and what it says.
#[derive(Clone, Debug)]
pub struct CommandLine {
    arguments: Vec<OsString>,
    /// Where the program was found at the start.
    program: PathBuf,
    /// What was read last.
    typed: Typed,
}

impl CommandLine {
    /// The command line with these words, the first of which is the program's name, and what was
    /// read by it.
    pub fn new(arguments: Vec<OsString>, typed: Typed) -> CommandLine {
        let name = arguments.first().cloned().unwrap_or_default();
        let program = found(Path::new(&name));
        CommandLine { arguments, program, typed }
    }

    /// The settings that it makes, checked against the architectures that there are.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn settings(&self) -> Result<Settings, cli::Failure> {
        let names: Vec<&str> = flyball_arch::ALL.iter().map(|arch| arch.name()).collect();
        resolve(&self.typed, &names).map_err(cli::Failure::Settings)
    }
}

/// Where a program of this name is, as a shell finds it; links are not followed, since what they
/// lead to is what an upgrade changes.
fn found(name: &Path) -> PathBuf {
    let found = match name.components().count() > 1 {
        true => name.to_owned(),
        false => searched(name),
    };
    // Whatever becomes of the working directory.
    std::path::absolute(&found).unwrap_or(found)
}

fn searched(name: &Path) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|place| place.join(name));
    let place = places.find(|place| place.is_file());
    place.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| name.to_owned())
}

impl Configuration for CommandLine {
    fn file(&self) -> Option<PathBuf> {
        let file = self.typed.file.as_deref()?;
        Some(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()))
    }

    fn program(&self) -> (PathBuf, Vec<OsString>) {
        (self.program.clone(), self.arguments.clone())
    }

    fn load(&mut self) -> Result<Settings, String> {
        let typed = match cli::parse(&self.arguments) {
            Ok(Command::Serve(typed)) => typed,
            Ok(_) => return Err("the command line does not say `serve`".into()),
            Err(failure) => return Err(failure.to_string()),
        };
        let again = CommandLine { typed, ..self.clone() };
        let settings = again.settings().map_err(|failure| failure.to_string())?;
        *self = again;
        Ok(settings)
    }

    fn changed(&self, settings: &Settings, key: &str, value: &str) -> Result<Settings, String> {
        let Some(setting) = find(SETTINGS, key) else {
            return Err(self.unknown(key));
        };
        let mut settings = settings.clone();
        setting.apply(&mut settings, &Raw::Text(value.to_owned()), Path::new("")).map_err(
            |wrong| format!("{key}: expected {}, found {}", wrong.expected, wrong.found),
        )?;
        settings.given.insert(setting.key, format!("{}: ", setting.key));
        Ok(settings)
    }

    fn unknown(&self, key: &str) -> String {
        let near = nearest(key, SETTINGS.iter().map(|setting| setting.key));
        let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        format!("there is no setting {key:?}{hint}")
    }

    fn changes(&self, key: &str) -> Changes {
        find(SETTINGS, key).map_or(Changes::Reload, |setting| setting.changes)
    }

    fn changeable(&self) -> Vec<Changeable> {
        let by_itself = SETTINGS.iter().filter(|setting| setting.changes != Changes::Reload);
        let row = |setting: &Setting| Changeable {
            key: setting.key,
            form: setting.form(),
            default: setting.default.unwrap_or_default(),
            changes: setting.changes,
        };
        by_itself.map(row).collect()
    }

    fn keys(&self) -> Vec<&'static str> {
        SETTINGS.iter().map(|setting| setting.key).collect()
    }

    fn written(&self, key: &str) -> Option<String> {
        let setting = find(SETTINGS, key)?;
        let written = self.typed.values.iter().rev().find(|written| written.key == setting.key);
        Some(match written {
            Some(written) => {
                written.raw.text().map_or_else(|| written.raw.to_string(), str::to_owned)
            }
            None => setting.default.unwrap_or_default().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_an_upgrade_is_named_from_the_root_whatever_the_server_was_called_by() {
        let here = std::env::current_dir().unwrap();
        for (name, path) in [
            ("./flyball", here.join("flyball")),
            ("bin/flyball", here.join("bin/flyball")),
            ("/opt/bin/flyball", "/opt/bin/flyball".into()),
        ] {
            assert_eq!(found(Path::new(name)), path);
        }
        assert!(found(Path::new("sh")).is_absolute());
    }
}
