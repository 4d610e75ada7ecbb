//! From what is asked for to a workload: where requests come from, and what is told of it.

use std::path::{Path, PathBuf};

use crate::job::Options;
use crate::target::Target;
use crate::workload::{
    Catalog, FilesetMix, Message, OneUrl, Skipped, WeightedList, Workload, session_log,
};

/// Most bytes of a log: it is read before the run.
const LOG_BYTES_MAX: u64 = 4 << 30;

/// What is asked for at the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Asking {
    /// The URL itself.
    #[default]
    Url,
    /// Paths with weights, out of a file.
    List(PathBuf),
    /// The files of a set, made by `flyball fileset`, as often as its kind asks for each.
    Fileset(PathBuf),
    /// The sessions of a log of httperf.
    SessionLog(PathBuf),
}

impl Asking {
    /// Whether sessions have a length of their own, so that each has a connection of its own also
    /// where they follow each other.
    pub(crate) fn has_sessions(&self) -> bool {
        matches!(self, Asking::Fileset(_) | Asking::SessionLog(_))
    }
}

/// A workload, and what is told of it.
pub(crate) struct Source {
    pub(crate) workload: Box<dyn Workload>,
    /// What it is in words.
    pub(crate) words: String,
    /// What whoever reads the report should know.
    pub(crate) notes: Vec<String>,
}

/// Makes what the options ask for and puts its requests into the catalog. Blocks on the disk.
///
/// # Errors
/// What cannot be read, and why.
pub(crate) fn source(
    options: &Options,
    target: &Target,
    catalog: &mut Catalog,
) -> Result<Source, String> {
    let message = |path: &str| Message {
        method: options.method.clone(),
        target: path.into(),
        body: options.body.clone(),
        http10: options.http10,
        ..Message::default()
    };
    let requests = options.requests_per_session();
    let think_ns = u64::try_from(options.think.as_nanos()).unwrap_or(u64::MAX);
    let pipelined = options.pipeline > 1;
    let mut notes = Vec::new();
    let (workload, words): (Box<dyn Workload>, String) = match &options.asking {
        Asking::Url => {
            let request = catalog.add(&message(&target.path));
            let workload = OneUrl::new(request, requests, think_ns, pipelined);
            (Box::new(workload), format!("one URL, {}", target.path))
        }
        Asking::Fileset(directory) => {
            let numbers = (options.requests_of_file_session(), think_ns, options.seed);
            let base = &target.path;
            let (mix, words) = FilesetMix::new(directory, base, &message(base), catalog, numbers)?;
            (Box::new(mix), words)
        }
        Asking::List(file) => {
            let text = read(file)?;
            let text = str::from_utf8(&text).map_err(|error| named(file, &error))?;
            let list = WeightedList::parse(text).map_err(|why| named(file, &why))?;
            let list: Vec<_> =
                list.iter().map(|(path, weight)| (*weight, catalog.add(&message(path)))).collect();
            let workload = WeightedList::new(&list, requests, think_ns, options.seed);
            let words = format!("{} paths of {}", list.len(), file.display());
            (Box::new(workload.pipelined(pipelined)), words)
        }
        Asking::SessionLog(file) => {
            let (text, mut skipped) = (read(file)?, Skipped::new(options.strict));
            let log = session_log(&text, &message(""), catalog, think_ns, &mut skipped)
                .map_err(|why| named(file, &why))?;
            notes.extend(skipped.note().map(|note| named(file, &note)));
            let words = format!("{} sessions of {}", log.sessions(), file.display());
            (Box::new(log), words)
        }
    };
    Ok(Source { workload, words, notes })
}

/// All of a file.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(file).map_err(|error| named(file, &error))?;
    if about.len() > LOG_BYTES_MAX {
        return Err(named(file, &format!("more than {LOG_BYTES_MAX} bytes: use a part of it")));
    }
    let bytes = std::fs::read(file).map_err(|error| named(file, &error))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(named(file, &"it is compressed: unpack it first (gunzip)"));
    }
    Ok(bytes)
}

fn named(file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", file.display())
}
