//! The limit of the caches is one of the process: a full cache grows its worker by what
//! `cache.content` says, to within 5 %, whatever the size of the files.
//!
//! What is counted is the anonymous memory that is resident (`RssAnon`), from after the first
//! answers, by which time a worker has its buffers, until every file was asked for again and again.
//! That is bodies, heads, names, paths and maps, what the allocator rounds up and cannot use again,
//! and its own records.
use std::fs;
use std::path::Path;

use crate::common::{Launch, Site, anonymous_bytes, get};
use flyball_testkit::Client;

/// Requests that are sent at once.
const PIPELINED: usize = 64;

/// Threads of `mt`.
const THREADS: usize = 4;

/// How far the growth may be from the limit.
const TOLERANCE: f64 = 0.05;

/// Rounds over all files: what is pushed out and comes back is not of the same size.
const ROUNDS: usize = 3;

/// A set of files that is about twice what the cache holds.
struct FileSet {
    name: &'static str,
    files: usize,
    limit: &'static str,
    limit_bytes: u64,
    /// Bytes of a file, by its number.
    size: fn(usize) -> usize,
}

const TINY: FileSet = FileSet {
    name: "100 bytes",
    files: 12_000,
    limit: "cache.content=4MiB",
    limit_bytes: 4 << 20,
    size: |n| 60 + n % 80,
};

const SMALL: FileSet = FileSet { name: "1 KB", files: 6_000, size: |n| 800 + n % 400, ..TINY };

const MEDIUM: FileSet = FileSet {
    name: "10 KB",
    files: 1_800,
    limit: "cache.content=8MiB",
    limit_bytes: 8 << 20,
    size: |n| 8_000 + 37 * (n % 108),
};

const MIXED: FileSet = FileSet {
    name: "100 bytes to 60 KB",
    files: 2_400,
    size: |n| [100, 1_000, 3_000, 10_000, 20_000, 60_000][n * 7 % 6] + 13 * (n % 90),
    ..MEDIUM
};

fn write(set: &FileSet, root: &Path) {
    for n in 0..set.files {
        let directory = root.join(format!("{}", n / 1_000));
        if n % 1_000 == 0 {
            fs::create_dir(&directory).expect("a directory");
        }
        fs::write(directory.join(name(n)), vec![b'x'; (set.size)(n)]).expect("a file");
    }
}

fn name(n: usize) -> String {
    format!("file-{n}.txt")
}

/// Asks for files, many at once, each answered with 200.
fn ask_for(client: &mut Client, files: impl Iterator<Item = usize>) {
    let files: Vec<usize> = files.collect();
    for batch in files.chunks(PIPELINED) {
        let path = |n: &usize| format!("/{}/{}", n / 1_000, name(*n));
        client.send(batch.iter().map(|n| get(&path(n))).collect::<String>());
        for n in batch {
            assert_eq!(client.response().status(), 200, "{n}");
        }
    }
}

/// What a worker grows by when its caches are full, as a share of their limit.
fn growth(arch: &str, set: &FileSet, site: &Site) -> f64 {
    let launch = Launch::new(site, arch).workers_for(arch, 1).set(set.limit);
    let launch = if arch == "mt" { launch.set(&format!("mt.threads={THREADS}")) } else { launch };
    let server = launch.set("cache.paths=1000000").start();
    // Each thread has its buffers before it is looked.
    let mut clients: Vec<Client> = (0..THREADS).map(|_| server.connect()).collect();
    for client in &mut clients {
        ask_for(client, std::iter::repeat_n(0, 10 * PIPELINED));
    }
    let mut client = clients.remove(0);
    let before = anonymous_bytes(server.worker());
    for round in 0..ROUNDS {
        // Not in the same order each time.
        let stride = [1, 7, 11][round];
        ask_for(&mut client, (0..set.files).map(|n| n * stride % set.files));
    }
    (anonymous_bytes(server.worker()) - before) as f64 / set.limit_bytes as f64
}

/// A full cache grows its worker by what its limit says, to within a twentieth.
fn expect_the_limit(set: &FileSet) {
    let site = Site::with(&[]);
    write(set, site.path());
    for arch in ["sped", "mt"] {
        let ratio = growth(arch, set, &site);
        println!("{arch}, {}: {ratio:.3} of the limit", set.name);
        assert!((ratio - 1.0).abs() <= TOLERANCE, "{arch}, {}: {ratio:.3}", set.name);
    }
}

#[test]
#[ignore = "full tier"]
fn a_cache_full_of_tiny_files_grows_its_worker_by_what_its_limit_says_to_within_a_twentieth() {
    expect_the_limit(&TINY);
}

#[test]
#[ignore = "full tier"]
fn a_cache_full_of_small_files_grows_its_worker_by_what_its_limit_says_to_within_a_twentieth() {
    expect_the_limit(&SMALL);
}

#[test]
fn a_cache_full_of_files_of_10_kb_grows_its_worker_by_what_its_limit_says_to_within_a_twentieth() {
    expect_the_limit(&MEDIUM);
}

#[test]
fn a_cache_full_of_files_of_all_sizes_grows_its_worker_by_its_limit_to_within_a_twentieth() {
    expect_the_limit(&MIXED);
}
