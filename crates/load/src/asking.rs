//! From what is asked for to a workload: where requests come from, and what is told of it.

use std::path::Path;
use std::sync::Arc;

use crate::fileset;
use crate::options::{Asking, Http10, Options};
use crate::set_checks;
use crate::target::Target;
use crate::units::counted;
use crate::workload::{
    AccessLog, Catalog, Dynamic, DynamicPlace, FilesetMix, Message, OneUrl, Replaying, Skipped,
    Surge, SurgeParameters, WeightedList, Workload, access_log, session_log,
};

/// Most bytes of a log: it is read before the run.
const LOG_BYTES_MAX: u64 = 4 << 30;

/// A workload, and what is told of it.
pub(crate) struct Source {
    pub(crate) workload: Box<dyn Workload>,
    /// What it is in words.
    pub(crate) words: String,
    /// What whoever reads the report should know.
    pub(crate) notes: Vec<String>,
    /// Lines of a log that say nothing that could be asked for.
    pub(crate) skipped_lines: u64,
    /// When its sessions begin, if it says so: nanoseconds from the first.
    pub(crate) starts_ns: Option<Arc<[u64]>>,
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
    let message = |path: &str| message(options, path);
    let requests = options.requests_per_session();
    let pipelined = options.behaviour.pipeline > 1;
    let (mut notes, mut starts_ns, mut skipped_lines) = (Vec::new(), None, 0);
    let (workload, words): (Box<dyn Workload>, String) = match &options.asking {
        Asking::Url => {
            let request = catalog.add(&message(&target.path));
            let workload = OneUrl::new(request, requests, pipelined);
            (Box::new(workload), format!("one URL, {}", target.path))
        }
        Asking::Fileset(_) | Asking::Mix(_) => files(options, target, catalog)?,
        Asking::List(file) => {
            let text = read(file)?;
            let text = str::from_utf8(&text).map_err(|error| named(file, &error))?;
            let scheme = if target.client.is_some() { "https" } else { "http" };
            let site = format!("{scheme}://{}", target.authority);
            let list = WeightedList::parse(text, &site).map_err(|why| named(file, &why))?;
            let list: Vec<_> =
                list.iter().map(|(path, weight)| (*weight, catalog.add(&message(path)))).collect();
            let workload = WeightedList::new(&list, requests, options.seed);
            let words = format!("{} of {}", counted(list.len(), "path"), file.display());
            (Box::new(workload.pipelined(pipelined)), words)
        }
        Asking::SessionLog(file) => {
            let (text, mut skipped) = (read(file)?, Skipped::new(options.strict));
            let log = session_log(&text, &message(""), catalog, &mut skipped)
                .map_err(|why| named(file, &why))?;
            notes.extend(skipped.note().map(|note| named(file, &note)));
            skipped_lines = skipped.count();
            let words = format!("{} of {}", counted(log.sessions(), "session"), file.display());
            (Box::new(log), words)
        }
        Asking::AccessLog(file) => {
            let (text, mut skipped) = (read(file)?, Skipped::new(options.strict));
            let client_gap_s = options.client_gap.map(|gap| gap.as_secs());
            let per_session = options.requests_per_session();
            let (data_set, speed) = (options.data_set, options.speed());
            let safe = options.safe;
            let replaying = Replaying { client_gap_s, per_session, data_set, speed, safe };
            let log = access_log(&text, &message(""), catalog, replaying, &mut skipped);
            let AccessLog { sessions, starts_ns: starts, left_out } =
                log.map_err(|why| named(file, &why))?;
            notes.extend(skipped.note().map(|note| named(file, &note)));
            let note = format!("{left_out} requests are left out, which might change something");
            notes.extend((left_out > 0).then(|| named(file, &note)));
            skipped_lines = skipped.count();
            starts_ns = Some(starts);
            let words =
                format!("{} of {}", counted(sessions.sessions(), "session"), file.display());
            (Box::new(sessions), words)
        }
    };
    let source = Source { workload, words, notes, skipped_lines, starts_ns };
    Ok(match options.surge {
        Some(parameters) => with_off_periods(source, parameters, options.seed),
        None => source,
    })
}

fn message(options: &Options, path: &str) -> Message {
    Message {
        method: options.method.clone(),
        target: path.into(),
        body: options.body.clone(),
        http10: options.http10 == Http10::Always,
        ..Message::default()
    }
}

/// A mix of the files of a set, and what it is in words.
fn files(
    options: &Options,
    target: &Target,
    catalog: &mut Catalog,
) -> Result<(Box<dyn Workload>, String), String> {
    let numbers = (options.requests_of_file_session(), options.seed);
    let (base, message) = (&target.path, message(options, ""));
    let (mix, mut words) = match &options.asking {
        Asking::Mix(_) if options.behaviour.verify => {
            return Err("--verify needs the set that the --mix is of: name its --fileset".into());
        }
        Asking::Mix(manifest) => FilesetMix::of_paths(manifest, base, &message, catalog, numbers)?,
        Asking::Fileset(directory) => {
            let made = FilesetMix::new(directory, options.mix, base, &message, catalog, numbers)?;
            set_checks::check_disk(directory, &fileset::open(directory)?)?;
            if let Some(peer) = target.peer().filter(|_| options.behaviour.verify) {
                set_checks::check_server(peer, catalog)?;
            }
            made
        }
        _ => return Err("no set of files is named".into()),
    };
    let mix = mix.pipelined(options.behaviour.pipeline > 1);
    let Some(dynamic) = &options.dynamic else { return Ok((Box::new(mix), words)) };
    let manifest = match &options.asking {
        Asking::Mix(manifest) => *manifest,
        Asking::Fileset(directory) => fileset::open(directory)?,
        _ => return Err("no set of files is named".into()),
    };
    let kind = options.mix.unwrap_or(manifest.kind);
    if !kind.is_spec() {
        return Err(format!(
            "--dynamic is of specweb99, and the mix of {kind} has no such requests"
        ));
    }
    let peer = target.peer().ok_or("the host has no address")?;
    let files = &manifest.files()?;
    let base = base.trim_end_matches('/');
    let place = DynamicPlace { peer, base, files, seed: manifest.parameters.seed };
    let dynamic = Dynamic::new(dynamic, place, mix.mix(), &message, catalog, options.seed)?;
    words += &dynamic.words();
    Ok((Box::new(mix.with_dynamic(dynamic)), words))
}

fn with_off_periods(source: Source, parameters: SurgeParameters, seed: u64) -> Source {
    let workload = Box::new(Surge::new(source.workload, parameters, seed));
    let words = format!("{}; {parameters}", source.words);
    Source { workload, words, ..source }
}

/// All of a file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, String> {
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

pub(crate) fn named(file: &Path, why: &dyn std::fmt::Display) -> String {
    format!("{}: {why}", file.display())
}
