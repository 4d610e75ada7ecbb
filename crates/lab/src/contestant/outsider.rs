//! A contestant that is any command: a server that a definition brings itself.
//!
//! A word of its command may hold names in braces, which stand for where it listens and what it
//! serves. The command has to stay in the foreground, and to serve the files by their names.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Absent, Conditions};
use crate::definition::Series;
use crate::host::{Place, SetupError, find};
use crate::nearest::nearest;

/// A name, and what stands for it.
type Name = (&'static str, fn(&Conditions) -> String);

/// All of them.
const NAMES: [Name; 7] = [
    ("address", |conditions| conditions.address.to_string()),
    ("host", |conditions| conditions.address.ip().to_string()),
    ("port", |conditions| conditions.address.port().to_string()),
    ("root", |conditions| conditions.site.display().to_string()),
    ("scratch", |conditions| conditions.scratch.display().to_string()),
    ("cpus", |conditions| conditions.cpus.to_string()),
    ("flyball", |conditions| conditions.flyball.display().to_string()),
];

/// By which of them a command knows where to listen.
const WHERE: [&str; 2] = ["{address}", "{port}"];

/// Checks what a series says of its command.
///
/// # Errors
/// What it has that a command cannot have, and which name in braces there is of a similar kind.
pub(super) fn check(series: &Series) -> Result<(), String> {
    let Series { contestant, architecture, set, command, .. } = series;
    if super::names().any(|known| known == contestant) {
        return Err(format!("{contestant} has a command already: give yours another name"));
    }
    if architecture.is_some() || !set.is_empty() || series.calls_in_place {
        return Err("what a command is to do differently stands in it: without `architecture`, \
                    `set` and `calls-in-place`"
            .into());
    }
    for name in command.iter().flat_map(|word| names_in(word)) {
        if !NAMES.iter().any(|(known, _)| *known == name) {
            let known = NAMES.iter().map(|(known, _)| *known);
            let near = nearest(name, known).map(|near| format!("; did you mean {{{near}}}?"));
            return Err(format!("nothing stands for {{{name}}}{}", near.unwrap_or_default()));
        }
    }
    let first = command.first().map_or("", String::as_str);
    if first.contains(' ') && !Path::new(first).is_file() {
        return Err(format!("{first:?} is one word: write each word of a command by itself"));
    }
    if !command.iter().any(|word| WHERE.iter().any(|name| word.contains(name))) {
        return Err(format!("the command does not say where to listen: {}", WHERE.join(" or ")));
    }
    Ok(())
}

/// The names in braces of a word; other braces are the command's own.
fn names_in(word: &str) -> impl Iterator<Item = &str> {
    let inside = word.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0));
    inside.filter(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// Whether its program is there.
///
/// # Errors
/// That it is not.
pub(super) fn is_there(series: &Series) -> Result<(), Absent> {
    program(series).map(|_| ()).map_err(Absent::Unable)
}

/// The path of its program: as it is written if that is a path, else on the search path.
///
/// # Errors
/// That it is not there. Which package brings it, if any, is not known of a program that a
/// definition names.
pub(super) fn program(series: &Series) -> Result<PathBuf, String> {
    let word = series.command.first().map_or("", String::as_str);
    if !word.contains('/') {
        return find(word).map_err(|_| format!("no program {word} on the search path"));
    }
    std::fs::canonicalize(word).map_err(|error| format!("{word}: {error}"))
}

/// The command that starts it in its place.
///
/// # Errors
/// When its program is missing.
pub(super) fn command(
    series: &Series,
    conditions: &Conditions,
    place: &Place,
) -> Result<Command, SetupError> {
    let program = program(series).map_err(SetupError)?;
    let fill = |word: &String| {
        NAMES.iter().fold(word.clone(), |word, (name, value)| {
            word.replace(&format!("{{{name}}}"), &value(conditions))
        })
    };
    let mut command = place.command(&program)?;
    command.args(series.command.iter().skip(1).map(fill));
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(command: &[&str]) -> Series {
        let command = command.iter().map(ToString::to_string).collect();
        Series { name: "x".into(), command, ..Series::default() }
    }

    #[test]
    fn a_command_has_the_names_filled_in_and_keeps_its_own_braces() {
        let conditions = Conditions {
            flyball: "/bin/flyball".into(),
            site: "/site".into(),
            config: None,
            file: None,
            scratch: "/scratch".into(),
            address: "198.18.0.1:80".parse().unwrap(),
            backlog: 128,
            cpus: 2,
        };
        let words = ["sh", "-c", "exec a {address} {root}", "{host}:{port}", "{cpus}{ a }", "{}"];
        let series = series(&words);
        assert_eq!(check(&series), Ok(()));
        let command = command(&series, &conditions, &Place::default()).unwrap();
        let found: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
        let expected = ["-c", "exec a 198.18.0.1:80 /site", "198.18.0.1:80", "2{ a }", "{}"];
        assert!(found.ends_with(&expected.map(String::from)), "{found:?}");
    }

    #[test]
    fn what_a_command_cannot_have_is_told() {
        for (words, why) in [
            (&["a", "{adress}"][..], "nothing stands for {adress}; did you mean {address}?"),
            (&["sh -c", "{port}"], "\"sh -c\" is one word: write each word of a command by itself"),
            (&["a", "{root}"], "does not say where to listen: {address} or {port}"),
        ] {
            assert!(check(&series(words)).unwrap_err().contains(why), "{words:?}");
        }
        let named = Series { contestant: "nginx".into(), ..series(&["a", "{port}"]) };
        assert!(check(&named).unwrap_err().contains("give yours another name"));
        let with = Series { architecture: Some("mt".into()), ..series(&["a", "{port}"]) };
        assert!(check(&with).unwrap_err().contains("without `architecture`"));
        let missing = is_there(&series(&["no-such-server", "{port}"])).unwrap_err();
        let why = "no program no-such-server on the search path";
        assert_eq!(missing, Absent::Unable(why.into()));
        let missing = is_there(&series(&["/no/such", "{port}"])).unwrap_err();
        assert!(matches!(missing, Absent::Unable(_)), "{missing:?}");
    }
}
