//! `flyball trust`: this machine trusts its own authority, or no longer.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use flyball::cli::Trust;
use flyball::settings::state_directory;
use flyball_server::{FILE_BYTES_MAX, authority_in, root_path};
use flyball_sys::error_log::shown_in_line;
use flyball_sys::{secret_file, whole_file};

/// The name of the certificate among those that the administrator adds.
const NAME: &str = "flyball-of-this-machine.crt";

/// How a distribution keeps what it trusts.
struct Layout {
    /// Where the administrator adds certificates.
    directory: &'static str,
    /// What makes the system's list of them, with its arguments.
    update: &'static [&'static str],
}

/// Debian and those that follow it, then Fedora and those that follow it.
const LAYOUTS: [Layout; 2] = [
    Layout {
        directory: "usr/local/share/ca-certificates",
        update: &["usr/sbin/update-ca-certificates", "--fresh"],
    },
    Layout {
        directory: "etc/pki/ca-trust/source/anchors",
        update: &["usr/bin/update-ca-trust", "extract"],
    },
];

pub(crate) fn run(asked: &Trust) -> ExitCode {
    super::finish(change(asked))
}

/// Where the certificate of this machine's own authority is, for this user.
fn own_root() -> PathBuf {
    root_path(&state_directory().join("internal"))
}

fn change(asked: &Trust) -> Result<String, String> {
    let root = asked.root.clone().unwrap_or_else(own_root);
    let is_here = |layout: &&Layout| asked.under.join(layout.update[0]).is_file();
    let layout = LAYOUTS.iter().find(is_here).ok_or_else(|| {
        format!(
            "this machine keeps what it trusts neither as Debian nor as Fedora does: add {} where \
             it does",
            root.display()
        )
    })?;
    let place = asked.under.join(layout.directory).join(NAME);
    let done = match asked.remove {
        true => remove(asked.root.as_deref(), &place)?,
        false => Some(add(&root, &place)?),
    };
    let Some(done) = done else {
        return Ok(format!("{} is not there: nothing is changed\n", place.display()));
    };
    let said = update(layout, &asked.under)?;
    let now = if asked.remove { "trust it no longer" } else { "trust it now" };
    Ok(format!(
        "{done}\n{said}\nPrograms that go by the system's list, such as curl and git, {now}. \
         Firefox and Chromium may have lists of their own.\n"
    ))
}

fn add(root: &Path, place: &Path) -> Result<String, String> {
    let text = read(root)?;
    authority_in(&text).map_err(|why| format!("{} {why}", root.display()))?;
    let before = fs::read_to_string(place).ok().filter(|before| *before != text);
    whole_file::replace(place, text.as_bytes(), 0o644).map_err(|error| failed(place, &error))?;
    let replaced = match before.map(|before| authority_in(&before)) {
        Some(Ok(subject)) => format!(
            "; another of {} was there, which is trusted no longer: one at a time is",
            shown_in_line(&subject)
        ),
        Some(Err(_)) => "; something else was there, which is gone".to_owned(),
        None => String::new(),
    };
    Ok(format!("{} is copied to {}{replaced}", root.display(), place.display()))
}

fn read(root: &Path) -> Result<String, String> {
    let file = secret_file::read(root, FILE_BYTES_MAX).map_err(|error| {
        let is_own = root == own_root();
        let hint = if is_own { "; `flyball serve DIR --https` makes it" } else { "" };
        format!("{}: {error}{hint}", root.display())
    })?;
    String::from_utf8(file.bytes).map_err(|_| format!("{} holds no text", root.display()))
}

/// Takes away what is trusted, if it is the certificate in `root`; nothing where none is.
fn remove(root: Option<&Path>, place: &Path) -> Result<Option<String>, String> {
    let there = match fs::read(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        there => there.map_err(|error| failed(place, &error))?,
    };
    if let Some(root) = root
        && read(root)?.as_bytes() != there
    {
        return Err(format!(
            "{} is another certificate than {}: nothing is changed; without FILE it is removed",
            place.display(),
            root.display()
        ));
    }
    fs::remove_file(place).map_err(|error| failed(place, &error))?;
    Ok(Some(format!("{} is removed", place.display())))
}

fn failed(place: &Path, error: &io::Error) -> String {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; only the superuser may: sudo flyball trust FILE",
        _ => "",
    };
    format!("{}: {error}{hint}", place.display())
}

fn update(layout: &Layout, under: &Path) -> Result<String, String> {
    let (name, arguments) = layout.update.split_first().ok_or("no program")?;
    let program: PathBuf = under.join(name);
    let output = Command::new(&program).args(arguments).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    match output.status.success() {
        true => Ok(format!("{} has made the system's list", program.display())),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Err(format!("{}: {}: {errors}", program.display(), output.status))
        }
    }
}
