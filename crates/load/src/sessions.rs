//! Logs of sessions for the files of a set, as httperf reads them: those of S4 are sixteen, one for
//! each client, with the off periods of SURGE.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::fileset::Manifest;
use crate::workload::{
    Catalog, FilesetMix, Follow, Message, Step, Surge, SurgeParameters, Workload,
};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Which logs are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionLogs {
    /// How many.
    pub logs: u64,
    /// Sessions of each.
    pub sessions: u64,
    /// The off periods; `None` is none.
    pub surge: Option<SurgeParameters>,
}

/// Writes the logs as `sessions-01.log` and so on into `directory`, which is made; each is drawn
/// with a seed of its own, which follows from the set's and stands in its first line. Blocks on the
/// disk.
///
/// # Errors
/// When the parameters make no set, or the directory cannot be written.
pub fn write_sessions(
    manifest: &Manifest,
    asked: SessionLogs,
    directory: &Path,
) -> Result<(), String> {
    let mut catalog = Catalog::new("h", Vec::new());
    let message = Message::default();
    let first_seed = manifest.parameters.seed;
    let told = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(told)?;
    let names: Vec<String> = manifest.files()?.into_iter().map(|file| file.name).collect();
    let numbers = (None, first_seed);
    let (mix, _) = FilesetMix::of_paths(manifest, "/", &message, &mut catalog, numbers)?;
    for nth in 0..asked.logs {
        let seed = first_seed.wrapping_add(nth);
        let drawn = mix.fork(nth as usize, 1);
        let mut drawn = match asked.surge {
            Some(parameters) => Box::new(Surge::new(drawn, parameters, seed)) as Box<dyn Workload>,
            None => drawn,
        };
        let path = directory.join(format!("sessions-{:02}.log", nth + 1));
        let mut out = BufWriter::new(fs::File::create(path).map_err(told)?);
        write!(out, "# {} sessions of {}, seed {seed}", asked.sessions, manifest.kind)
            .map_err(told)?;
        match asked.surge {
            Some(parameters) => writeln!(out, ", {parameters}"),
            None => writeln!(out),
        }
        .map_err(told)?;
        let mut steps = Vec::new();
        for _ in 0..asked.sessions {
            steps.clear();
            drawn.next_session(&mut steps);
            session(&mut out, &steps, &names).map_err(told)?;
        }
        out.flush().map_err(told)?;
    }
    Ok(())
}

/// A session: a line for each request, those that follow the first of a burst indented.
fn session(out: &mut dyn Write, steps: &[Step], names: &[String]) -> io::Result<()> {
    for (at, step) in steps.iter().enumerate() {
        let name = &names[step.request as usize];
        if matches!(step.follow, Follow::AfterFirst | Follow::Together) {
            writeln!(out, "    /{name}")?;
            continue;
        }
        // What is thought before the next burst stands with this one.
        let next = steps[at + 1..].iter().find_map(|step| match step.follow {
            Follow::Think(ns) => Some(ns),
            Follow::Pause => Some(0),
            Follow::AfterFirst | Follow::Together => None,
        });
        match next.filter(|ns| *ns > 0) {
            Some(ns) => writeln!(out, "/{name} think={:.3}", ns as f64 / SECOND_NS)?,
            None => writeln!(out, "/{name}")?,
        }
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{Kind, Parameters};
    use crate::workload::{Skipped, session_log};

    #[test]
    fn logs_of_sessions_are_read_as_they_were_drawn() {
        let directory = tempfile::tempdir().unwrap();
        let kind = Kind::S4;
        let manifest =
            Manifest { kind, parameters: Parameters { directories: 3, ..kind.defaults() } };
        let surge = Some(SurgeParameters::default());
        let asked = SessionLogs { logs: 2, sessions: 300, surge };
        write_sessions(&manifest, asked, directory.path()).unwrap();
        let read = |name: &str| fs::read(directory.path().join(name)).unwrap();
        let (one, two) = (read("sessions-01.log"), read("sessions-02.log"));
        assert!(one.starts_with(b"# 300 sessions of s4, seed 1, "));
        assert_ne!(one[60..], two[60..], "each client has its own");
        let (mut catalog, mut strict) = (Catalog::new("h", Vec::new()), Skipped::new(true));
        let log = session_log(&one, &Message::default(), &mut catalog, &mut strict).unwrap();
        assert_eq!(log.sessions(), 300);
        let mean = log.requests_per_session();
        assert!((6.3..8.3).contains(&mean), "{mean}");
        assert!(catalog.len() <= 108, "files are asked for again");
        assert!(String::from_utf8(one).unwrap().contains(" think="));
    }
}
