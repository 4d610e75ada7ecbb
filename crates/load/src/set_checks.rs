//! Whether a set is what its manifest says, before a run is judged by it: a few of its files, on
//! the disk and from the server.

use std::fs::File as Opened;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use flyball_http::h1::{Incoming, Part};

use crate::dial::Peer;
use crate::fileset::{FileContent, Manifest};
use crate::workload::{Catalog, Content, Prepared};

/// Files that are looked at, evenly over the set.
const FILES: usize = 8;

/// Bytes that are looked at of each: the first line, and text that depends on the seed.
const BYTES: usize = 1_024;

/// Bytes that a head and so much of a body may have.
const REPLY_MAX: usize = 64 << 10;

/// Longest wait for one of them.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Looks at some of the files in the directory of a set; those that are missing say nothing, for
/// a client needs no more than the manifest. Blocks on the disk.
///
/// # Errors
/// The name of a file that is another than the manifest says, and what to do.
pub fn check_disk(directory: &Path, manifest: &Manifest) -> Result<(), String> {
    let files = manifest.files()?;
    for at in places(files.len()) {
        let file = &files[at];
        let Ok(opened) = Opened::open(directory.join(&file.name)) else { continue };
        let content = FileContent::new(&file.name, file.size, manifest.parameters.seed);
        let mut bytes = Vec::with_capacity(BYTES);
        let is_read = opened.metadata().is_ok_and(|about| about.len() == file.size)
            && opened.take(BYTES as u64).read_to_end(&mut bytes).is_ok();
        if !is_read || !content.matches(0, &bytes) {
            let (kind, seed) = (manifest.kind, manifest.parameters.seed);
            return Err(format!(
                "{}: {} is not what seed {seed} makes of it: the set was changed or is of another \
                 seed; remove it, and make it again by `flyball fileset {kind} {} --seed {seed}`",
                directory.display(),
                file.name,
                directory.display(),
            ));
        }
    }
    Ok(())
}

/// Asks the server for some of the files that requests of a catalog expect. What does not answer is
/// left to the run, which counts it. Blocks for at most two seconds for each.
///
/// # Errors
/// What a reply was instead of the file, and what to do.
pub(crate) fn check_server(peer: Peer<'_>, catalog: &Catalog) -> Result<(), String> {
    let known: Vec<&Prepared> =
        catalog.requests().filter(|request| request.expected.content.is_some()).collect();
    for at in places(known.len()) {
        let request = known[at];
        let Ok(Some(why)) = difference(peer, request) else { continue };
        let line = request.bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
        return Err(format!(
            "{} answers {} with {why}, other than the set of files says: have the server \
             serve the directory of the set, or name the --fileset that it serves",
            peer.address,
            String::from_utf8_lossy(line),
        ));
    }
    Ok(())
}

/// Places in a list of so many: the first, the last, and some between.
fn places(count: usize) -> impl Iterator<Item = usize> {
    let looked_at = count.min(FILES);
    (0..looked_at).map(move |nth| nth * count.saturating_sub(1) / (looked_at - 1).max(1))
}

/// How the beginning of a reply differs from what is expected, if it does.
fn difference(peer: Peer<'_>, request: &Prepared) -> io::Result<Option<String>> {
    let mut socket = peer.dial(WAIT_MAX)?;
    socket.write_all(&request.bytes)?;
    let (mut answer, mut input) = (Incoming::new(request.is_head), [0; 4_096]);
    let (mut body, expected) = (0_u64, &request.expected);
    loop {
        let held = answer.held();
        match answer.next_part() {
            Part::Head(head, _) => {
                if expected.status.is_some_and(|status| status != head.status) {
                    return Ok(Some(format!("the status {}", head.status)));
                }
                let wrong = |length: &u64| expected.length.is_some_and(|size| size != *length);
                if let Some(length) = head.length.filter(wrong) {
                    return Ok(Some(format!("{length} bytes")));
                }
            }
            Part::Body(bytes) => {
                if expected.content.as_ref().is_some_and(|own| !own.matches(body, bytes)) {
                    return Ok(Some("another body".into()));
                }
                body += bytes.len() as u64;
            }
            Part::More if held < REPLY_MAX && body < BYTES as u64 => {
                match socket.read(&mut input)? {
                    0 => return Ok(None),
                    received => answer.received(&input[..received]),
                }
            }
            Part::More | Part::End | Part::Broken(_) => return Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fileset::{Kind, Parameters, make};

    #[test]
    fn a_file_of_another_seed_is_found_on_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let set = directory.path().join("set");
        let kind = Kind::SpecWeb99;
        let manifest =
            Manifest { kind, parameters: Parameters { directories: 1, ..kind.defaults() } };
        make(&manifest, &set, &mut |_, _| {}).unwrap();
        assert_eq!(check_disk(&set, &manifest), Ok(()));
        let parameters = Parameters { seed: 2, ..manifest.parameters };
        let why = check_disk(&set, &Manifest { parameters, ..manifest }).unwrap_err();
        assert!(why.contains("not what seed 2 makes of it") && why.contains("--seed 2"), "{why}");
        std::fs::write(set.join("file_set/dir00000/class0_0"), "short").unwrap();
        assert!(check_disk(&set, &manifest).unwrap_err().contains("class0_0"));
        std::fs::remove_dir_all(set.join("file_set")).unwrap();
        assert_eq!(check_disk(&set, &manifest), Ok(()), "the files may be elsewhere");
    }

    #[test]
    fn the_first_and_the_last_are_among_those_looked_at() {
        assert_eq!(places(0).count(), 0);
        assert_eq!(places(1).collect::<Vec<_>>(), [0]);
        assert_eq!(places(4).collect::<Vec<_>>(), [0, 1, 2, 3]);
        let many: Vec<usize> = places(900).collect();
        assert_eq!((many.len(), many[0], many[7]), (8, 0, 899));
    }
}
