//! Files that change while they are downloaded: a whole body is always one version of its file.
//!
//! Every file is filled with one record, repeated, that says its version, its place and the length
//! of the whole. A body that is as long as its head promised must consist of one version from its
//! first byte to its last. A connection that the server closes early is right, and is counted; but
//! where bodies promise bytes and no version, a file that only grows is never a reason for it.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::common_programs::exchange::{Answer, Client, get};
use crate::common_programs::served::Served;
use crate::common_programs::{Random, on_every_architecture};
use flyball_testkit::wait::{DEADLINE, until};

/// Length of a file that is held in memory.
const SMALL: usize = 8 * 1024;

/// Length of a file that leaves in pieces.
const LARGE: usize = 3 * 1024 * 1024;

/// Bytes of a record: version, place in records, length of the whole (0 when it may grow).
const RECORD: usize = 16;

/// How long the files are changed; `FLYBALL_HAMMER_SECONDS` says otherwise, and has it done on
/// every architecture.
const HAMMER: Duration = Duration::from_secs(2);

/// On which architectures it is done otherwise: one of each way to send a body.
const HAMMERED: [&str; 5] = ["sped", "shared-symped", "mt", "tux", "uring"];

/// Within this time a change must be seen: `cache.revalidate` is 1 s by default, and the rest is
/// for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Replace,
    Truncate,
    Append,
    Rewrite,
    Recreate,
    Chmod,
}

const CHANGES: [Change; 6] = [
    Change::Replace,
    Change::Truncate,
    Change::Append,
    Change::Rewrite,
    Change::Recreate,
    Change::Chmod,
];

on_every_architecture! {
    [
        a_change_is_seen_within_the_time_of_revalidation,
        a_file_that_is_made_or_deleted_is_noticed_within_the_time_of_revalidation,
        a_large_file_that_changed_breaks_off_one_download_and_not_the_next,
        a_file_that_grows_during_its_download_is_finished_as_its_head_promised,
        a_file_that_grows_during_a_strict_download_costs_the_connection_and_nothing_else,
    ]
    full [
        no_body_is_torn_while_files_change_and_bodies_are_copied,
        no_body_is_torn_while_files_change_and_bodies_are_sent_from_mappings,
        no_body_is_torn_while_files_change_as_the_server_is_set_by_default,
        no_body_is_torn_while_files_are_rewritten_in_place_without_a_pause,
    ]
}

fn no_body_is_torn_while_files_change_and_bodies_are_copied(arch: &str) {
    // Looked at again much more often than by default, so that many loads meet a change.
    hammer_all(arch, &["send.mode=copy", "cache.revalidate=20ms"], &every_change());
}

fn no_body_is_torn_while_files_change_and_bodies_are_sent_from_mappings(arch: &str) {
    // Few chunks stay mapped, so that many are mapped and unmapped meanwhile.
    let mapped = ["send.mode=mapped", "cache.mapped=1MiB", "cache.revalidate=20ms"];
    hammer_all(arch, &mapped, &every_change());
}

fn no_body_is_torn_while_files_change_as_the_server_is_set_by_default(arch: &str) {
    // A file that is truncated and written again may be longer then, and looks as if it had grown.
    let jobs = every_change().into_iter().filter(|job| job.change != Change::Truncate);
    hammer_all(arch, &[], &jobs.collect::<Vec<_>>());
}

fn no_body_is_torn_while_files_are_rewritten_in_place_without_a_pause(arch: &str) {
    // The times of a file are set when a write begins: many downloads begin in the middle of one.
    let jobs = [0, 1, 2].map(|more| Job {
        change: Change::Rewrite,
        len: if more == 0 { SMALL } else { LARGE + more * RECORD },
        rest_ms_max: 25,
    });
    hammer_all(arch, &["send.mode=copy", "cache.revalidate=20ms"], &jobs);
}

/// A file to be changed.
#[derive(Clone, Copy)]
struct Job {
    change: Change,
    len: usize,
    /// Longest rest between two changes.
    rest_ms_max: u64,
}

fn every_change() -> Vec<Job> {
    let small = CHANGES.map(|change| Job { change, len: SMALL, rest_ms_max: 90 });
    let large = CHANGES.map(|change| Job { change, len: LARGE, rest_ms_max: 180 });
    [small, large].concat()
}

/// Changes files while each of them is downloaded.
fn hammer_all(arch: &str, settings: &[&str], jobs: &[Job]) {
    let longer = std::env::var("FLYBALL_HAMMER_SECONDS").ok().and_then(|said| said.parse().ok());
    if longer.is_none() && !HAMMERED.contains(&arch) {
        return;
    }
    let served = Served::start(arch, "", settings);
    let address = served.address();
    let mut files = Vec::new();
    for job in jobs {
        let name = format!("{:?}-{}", job.change, job.len);
        let path = served.root().join(&name);
        fs::write(&path, body(1, job.len, job.change)).expect("a file can be written");
        files.push((*job, path, format!("/{name}")));
    }
    let end = Instant::now() + longer.map_or(HAMMER, Duration::from_secs);
    let mut faults = Vec::new();
    std::thread::scope(|scope| {
        let mut downloads = Vec::new();
        for (job, path, target) in &files {
            let (begun, begins) = channel();
            scope.spawn(move || hammer(*job, path, &begins, end));
            let download = move || download(address, job.change, target, &begun, end);
            downloads.push((target, scope.spawn(download)));
        }
        for (target, download) in downloads {
            let seen = download.join().expect("a download thread ends");
            println!("{arch} {target}: {seen:?}");
            faults.extend(seen.torn.iter().map(|torn| format!("{target}: {torn}")));
            // A writer that loses its processor between the time and the size of a write looks as
            // if it had rewritten the file: that may happen once, and is no rule.
            let only_grows = settings.is_empty() && target.starts_with("/Append");
            if only_grows && seen.short > seen.whole / 100 {
                faults.push(format!("{target}: broken off although it only grew: {seen:?}"));
            }
            if seen.whole == 0 {
                faults.push(format!("{target}: never a whole body: {seen:?}"));
            }
        }
    });
    for (_, path, target) in &files {
        if !is_served_as_it_is(address, path, target) {
            faults.push(format!("{target}: still served as it was, after it has come to rest"));
        }
    }
    assert!(faults.is_empty(), "{arch} {settings:?}:\n{}", faults.join("\n"));
}

/// What a downloader met.
#[derive(Debug, Default)]
struct Seen {
    /// Bodies that are one whole version.
    whole: u64,
    /// Bodies that are the beginning of one version, as the file was while it was being written.
    part: u64,
    /// Bodies that the server broke off.
    short: u64,
    /// Answers without the file.
    refused: u64,
    /// Bodies that no version of the file ever was.
    torn: Vec<String>,
}

/// Downloads one file again and again, and looks at every byte. On a busy machine each download may
/// have met a change when the time is over: the next is of a file at rest.
fn download(
    address: SocketAddr,
    change: Change,
    target: &str,
    begun: &Sender<()>,
    end: Instant,
) -> Seen {
    let mut seen = Seen::default();
    let mut client = Client::connect(address);
    let rests_long = end + SEEN_WITHIN;
    while Instant::now() < end || seen.whole == 0 && Instant::now() < rests_long {
        let answer = client.send(get(target).as_bytes()).and_then(|()| client.head());
        // The hammer may have ended.
        let _ = begun.send(());
        let answer = answer.and_then(|(status, head)| client.body(status, head));
        let closes = match answer {
            Ok(answer) => {
                let closes = answer.closes();
                take_down(&mut seen, change, answer);
                closes
            }
            // Closed between two requests, or before the head.
            Err(_) => {
                seen.short += 1;
                true
            }
        };
        if closes {
            client = Client::connect(address);
        }
    }
    seen
}

fn take_down(seen: &mut Seen, change: Change, answer: Answer) {
    match answer.status {
        200 if !answer.is_whole => seen.short += 1,
        200 => match judge(&answer.body, change) {
            Ok(true) => seen.whole += 1,
            Ok(false) => seen.part += 1,
            Err(torn) => seen.torn.push(torn),
        },
        403 | 404 | 503 => seen.refused += 1,
        status => seen.torn.push(format!("status {status}")),
    }
}

/// Whether a body is a whole version (true) or the beginning of one that was still being written
/// (false); why not, if it is neither.
fn judge(body: &[u8], change: Change) -> Result<bool, String> {
    // A file that is truncated or made anew is empty, and then ever longer, until it is written:
    // nobody who reads it can tell such a moment from a short file.
    let may_be_part = matches!(change, Change::Truncate | Change::Recreate);
    let Some(first) = body.first_chunk::<RECORD>() else {
        let fault = || Err(format!("a body of {} bytes", body.len()));
        return if may_be_part && body.is_empty() { Ok(false) } else { fault() };
    };
    let version = u32::from_le_bytes([first[0], first[1], first[2], first[3]]);
    let declared = u64::from_le_bytes(*first.last_chunk().expect("a record has a length"));
    for (place, found) in body.chunks(RECORD).enumerate() {
        let expected = record(version, place, declared);
        if *found != expected[..found.len()] {
            let at = place * RECORD;
            let (of, found) = (body.len(), found.escape_ascii());
            return Err(format!("version {version} is torn at byte {at} of {of}: {found}"));
        }
    }
    match (declared, body.len() as u64) {
        (0, _) if change == Change::Append => Ok(true),
        (declared, len) if declared == len => Ok(true),
        (declared, len) if declared > len && may_be_part => Ok(false),
        (declared, len) => Err(format!("version {version}: {len} bytes, not {declared}")),
    }
}

fn record(version: u32, place: usize, declared: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..4].copy_from_slice(&version.to_le_bytes());
    record[4..8].copy_from_slice(&(place as u32).to_le_bytes());
    record[8..].copy_from_slice(&declared.to_le_bytes());
    record
}

/// A whole version of a file.
fn body(version: u32, len: usize, change: Change) -> Vec<u8> {
    let declared = if change == Change::Append { 0 } else { len as u64 };
    (0..len / RECORD).flat_map(|place| record(version, place, declared)).collect()
}

/// Changes one file until the time is over. Between two changes it rests for a while, and then
/// often waits for the next download to begin, so that the change falls into it.
fn hammer(job: Job, path: &Path, begins: &Receiver<()>, end: Instant) {
    let Job { change, len, rest_ms_max } = job;
    let mut random = Random::new(len as u64 + change as u64);
    let mut version = 1;
    while Instant::now() < end {
        let rest = Duration::from_millis(random.below(rest_ms_max));
        let rested = Instant::now() + rest;
        while let Some(left) = rested.checked_duration_since(Instant::now()) {
            if begins.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
        if random.below(3) > 0 {
            // A time-out is as good: then the change falls between two downloads.
            let _ = begins.recv_timeout(rest);
        }
        version += 1;
        let jitter = random.below(32) as usize * RECORD;
        change_once(change, path, version, len + jitter, len);
    }
}

fn change_once(change: Change, path: &Path, version: u32, len: usize, least: usize) {
    match change {
        Change::Replace => replace(path, &body(version, len, change)),
        Change::Truncate => {
            let bytes = body(version, len, change);
            let mut file = OpenOptions::new().write(true).truncate(true).open(path);
            file.as_mut().expect("it is there").write_all(&bytes).expect("it can be written");
        }
        Change::Append => append(path, least),
        Change::Rewrite => {
            let bytes = body(version, least, change);
            let file = OpenOptions::new().write(true).open(path).expect("it is there");
            file.write_all_at(&bytes, 0).expect("it can be written");
        }
        Change::Recreate => {
            let bytes = body(version, len, change);
            fs::remove_file(path).expect("it is there");
            fs::write(path, bytes).expect("it can be made anew");
        }
        Change::Chmod => {
            let mode = if version.is_multiple_of(2) { 0o604 } else { 0o644 };
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is there");
        }
    }
}

fn replace(path: &Path, bytes: &[u8]) {
    let beside = beside(path);
    fs::write(&beside, bytes).expect("a file can be written");
    fs::rename(&beside, path).expect("a file can be renamed");
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().expect("a file has a name").to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}

/// Appends some records; a file that has become much longer starts again as another version.
fn append(path: &Path, least: usize) {
    let bytes = fs::read(path).expect("it is there");
    let version = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    if bytes.len() > least * 2 {
        return replace(path, &body(version + 1, least, Change::Append));
    }
    let start = bytes.len() / RECORD;
    let count = least / RECORD / 64;
    let more: Vec<u8> =
        (start..start + count).flat_map(|place| record(version, place, 0)).collect();
    let mut file = OpenOptions::new().append(true).open(path).expect("it is there");
    file.write_all(&more).expect("it can be written");
}

/// Whether the server comes to give a file as it is on the disk in time.
fn is_served_as_it_is(address: SocketAddr, path: &Path, target: &str) -> bool {
    let expected = fs::read(path).expect("it is there");
    comes_true(|| matches!(fetch(address, target), Some(answer) if answer.body == expected))
}

/// Whether a condition comes true within the time that a change may take to be seen.
fn comes_true(mut condition: impl FnMut() -> bool) -> bool {
    until(SEEN_WITHIN, || condition().then_some(())).is_some()
}

/// One whole answer on a connection of its own; `None` when the server breaks it off.
fn fetch(address: SocketAddr, target: &str) -> Option<Answer> {
    Client::connect(address).get(target).ok().filter(|answer| answer.is_whole)
}

/// What one request has seen, the next sees too: with private caches, only in the same process.
fn one_process(arch: &str) -> &'static [&'static str] {
    if arch == "mp" { &["mp.processes=1"] } else { &[] }
}

fn a_change_is_seen_within_the_time_of_revalidation(arch: &str) {
    let served = Served::start(arch, "", one_process(arch));
    for (target, len) in [("/small", SMALL), ("/large", LARGE)] {
        let path = served.root().join(&target[1..]);
        fs::write(&path, body(1, len, Change::Replace)).expect("a file can be written");
        let first = wait_until_kept(served.address(), target);
        assert_eq!(judge(&first.body, Change::Replace), Ok(true), "{arch} {target}");

        // Same length, another inode.
        let second = body(2, len, Change::Replace);
        replace(&path, &second);
        let replaced = sees(served.address(), target, &second);
        assert_ne!(first.etag(), replaced.etag(), "{arch} {target}: replaced");

        // Same length, same inode.
        let third = body(3, len, Change::Rewrite);
        let file = OpenOptions::new().write(true).open(&path).expect("it is there");
        file.write_all_at(&third, 0).expect("it can be written");
        let rewritten = sees(served.address(), target, &third);
        assert_ne!(replaced.etag(), rewritten.etag(), "{arch} {target}: rewritten");

        assert_eq!(condition_holds(served.address(), target, &rewritten.etag()), 304);
        assert_eq!(condition_holds(served.address(), target, &first.etag()), 200);
    }
}

/// The status of a request that wants the file only if it is not this version of it.
fn condition_holds(address: SocketAddr, target: &str, etag: &str) -> u16 {
    let mut client = Client::connect(address);
    let request = get(target).replace("\r\n\r\n", &format!("\r\nIf-None-Match: {etag}\r\n\r\n"));
    client.send(request.as_bytes()).and_then(|()| client.answer()).expect("an answer").status
}

/// Asks for a file until it is old enough to have entered the cache, and was answered from there.
fn wait_until_kept(address: SocketAddr, target: &str) -> Answer {
    let old_enough = Instant::now() + Duration::from_millis(200);
    let kept = until(DEADLINE, || {
        let answer = fetch(address, target).expect("a file at rest is served whole");
        assert_eq!(answer.status, 200, "{target}");
        (Instant::now() > old_enough).then_some(answer)
    });
    kept.expect("enough time passes")
}

/// Asks for a file until it comes with these bytes; every whole body before is one version, too.
fn sees(address: SocketAddr, target: &str, expected: &[u8]) -> Answer {
    let mut last = None;
    let seen = comes_true(|| {
        let Some(answer) = fetch(address, target) else { return false };
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(judge(&answer.body, Change::Replace), Ok(true), "{target}");
        let is_new = answer.body == expected;
        last = Some(answer);
        is_new
    });
    assert!(seen, "{target}: the change is not seen in time");
    last.expect("it was seen")
}

fn a_large_file_that_changed_breaks_off_one_download_and_not_the_next(arch: &str) {
    let settings = [&["cache.revalidate=1h"], one_process(arch)].concat();
    let served = Served::start(arch, "", &settings);
    let path = served.root().join("large");
    fs::write(&path, body(1, LARGE, Change::Rewrite)).expect("a file can be written");
    let first = wait_until_kept(served.address(), "/large");

    let second = body(2, LARGE, Change::Rewrite);
    let file = OpenOptions::new().write(true).open(&path).expect("it is there");
    file.write_all_at(&second, 0).expect("it can be written");
    if let Some(answer) = fetch(served.address(), "/large") {
        assert_eq!(judge(&answer.body, Change::Rewrite), Ok(true), "{arch}");
        assert_ne!(answer.etag(), first.etag(), "{arch}: whole, under the head of another version");
    }
    let next = fetch(served.address(), "/large").expect("the second download is whole");
    assert!(next.body == second, "{arch}: not what the file holds");
}

fn a_file_that_is_made_or_deleted_is_noticed_within_the_time_of_revalidation(arch: &str) {
    let served = Served::start(arch, "", one_process(arch));
    let status = |target: &str| fetch(served.address(), target).map(|answer| answer.status);
    for (target, len) in [("/small", SMALL), ("/large", LARGE), ("/new/below", SMALL)] {
        let path = served.root().join(&target[1..]);
        // Twice, so that the second answer comes from the cache of what is not there.
        assert_eq!((status(target), status(target)), (Some(404), Some(404)), "{arch} {target}");

        fs::create_dir_all(path.parent().expect("it has a parent")).expect("it can be made");
        fs::write(&path, body(1, len, Change::Replace)).expect("a file can be written");
        assert!(comes_true(|| status(target) == Some(200)), "{arch} {target}: made");
        wait_until_kept(served.address(), target);

        fs::remove_file(&path).expect("it is there");
        assert!(comes_true(|| status(target) == Some(404)), "{arch} {target}: deleted");
    }
}

/// A file that grows by two records, five times, while it is downloaded: the bytes that it had, the
/// answer, and those that it has.
fn grows_during_its_download(served: &Served) -> (Vec<u8>, Answer, Vec<u8>) {
    // More than the sockets of both sides can hold, so that the last piece has not left when the
    // file grows.
    const LEN: usize = 48 * 1024 * 1024;
    let path = served.root().join("growing");
    let old = body(1, LEN, Change::Append);
    fs::write(&path, &old).expect("a file can be written");

    let mut client = Client::connect(served.address());
    client.send(get("/growing").as_bytes()).expect("the request is taken");
    let (status, head) = client.head().expect("a head comes");
    assert_eq!(status, 200, "{head}");
    assert!(head.contains(&format!("Content-Length: {LEN}\r\n")), "{head}");

    let mut new = old.clone();
    let mut file = File::options().append(true).open(&path).expect("it is there");
    for place in (LEN / RECORD..).step_by(2).take(5) {
        let more = [record(1, place, 0), record(1, place + 1, 0)].concat();
        file.write_all(&more).expect("it can be written");
        new.extend(more);
    }
    let answer = client.body(status, head).expect("the body comes, or the end");
    (old, answer, new)
}

fn a_file_that_grows_during_its_download_is_finished_as_its_head_promised(arch: &str) {
    let served = Served::start(arch, "", &[]);
    let (old, answer, _) = grows_during_its_download(&served);
    assert!(answer.is_whole, "{arch}: broken off although it only grew");
    assert!(answer.body == old, "{arch}: not what the head promised");
}

fn a_file_that_grows_during_a_strict_download_costs_the_connection_and_nothing_else(arch: &str) {
    let served = Served::start(arch, "", &["send.mode=copy"]);
    let (old, answer, new) = grows_during_its_download(&served);
    assert!(!answer.is_whole, "{arch}: finished under a head that is not true any more");
    assert!(old.starts_with(&answer.body), "{arch}: what came is not what the file held");

    let mut client = Client::connect(served.address());
    let is_new = |answer: Answer| answer.is_whole && answer.body == new;
    let seen = comes_true(|| match client.get("/growing") {
        Ok(answer) if answer.is_whole => answer.body == new,
        _ => {
            client = Client::connect(served.address());
            false
        }
    });
    assert!(seen, "{arch}: the longer file is not seen in time");
    assert!(client.get("/growing").is_ok_and(is_new), "{arch}: the connection is not kept");
}
