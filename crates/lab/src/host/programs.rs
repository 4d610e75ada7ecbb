//! Programs that experiments start, and which package brings each.

use std::env;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use super::SetupError;

/// Each program and the Debian package that holds it, where the names differ.
const PACKAGES: &[(&str, &str)] = &[
    ("apache2", "apache2-bin"),
    ("chrt", "util-linux"),
    ("ip", "iproute2"),
    ("mini_httpd", "mini-httpd"),
    ("mkfs.ext4", "e2fsprogs"),
    ("nginx", "nginx-light"),
    ("perf", "linux-perf"),
    ("setpriv", "util-linux"),
    ("sh", "dash"),
    ("taskset", "util-linux"),
    ("umount", "mount"),
];

/// Where Debian keeps servers, which is not on the search path of an ordinary user.
const SYSTEM_DIRECTORIES: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// A program that is not installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub program: String,
    /// The package to install.
    pub package: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { program, package } = self;
        write!(out, "{program} is not installed: apt-get install {package}")
    }
}

impl From<Missing> for SetupError {
    fn from(missing: Missing) -> SetupError {
        SetupError(missing.to_string())
    }
}

/// The path of a program.
///
/// # Errors
/// Which package to install.
pub fn find(program: &str) -> Result<PathBuf, Missing> {
    let path = env::var("PATH").unwrap_or_default() + ":" + SYSTEM_DIRECTORIES;
    let found = env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let listed = PACKAGES.iter().find(|(name, _)| *name == program);
        let package = listed.map_or(program, |(_, package)| package);
        Missing { program: program.to_owned(), package: package.to_owned() }
    })
}

/// The first line that a program prints on either output: most tell their version so. Blocks.
pub fn first_line(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().map(str::to_owned)
}

/// Runs a program to its end. Blocks.
pub(super) fn run(program: &str, arguments: &[&str]) -> Result<String, SetupError> {
    let output = Command::new(find(program)?)
        .args(arguments)
        .output()
        .map_err(|error| SetupError(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(SetupError(format!("{program} {}: {}", arguments.join(" "), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_package_that_brings_it() {
        assert!(find("sh").is_ok());
        let missing = find("no-such-program").unwrap_err();
        assert_eq!(missing.package, "no-such-program");
        assert!(missing.to_string().ends_with("apt-get install no-such-program"));
    }
}
