//! The memory of full caches is what `cache.content` says, to within 5 %: that of the bodies, and
//! of everything beside them.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flyball_http::{Head, Limits, Now, scan};
use flyball_site::{
    CachePolicy, CacheSettings, Lookup, Service, SharedCaches, SiteSettings, Sites,
};
use flyball_sys::alloc;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Files are older than this when they are asked for, so that they are cached.
const AGE_MS: u64 = 60_000;

/// How far the memory may be from the limit, as one part of it in so many.
const TOLERANCE: u64 = 20;

/// A set of files that is about twice what the cache holds.
struct FileSet {
    name: &'static str,
    files: usize,
    bytes_max: u64,
    /// Bytes of a file, by its number.
    size: fn(usize) -> usize,
}

const SETS: [FileSet; 3] = [
    FileSet {
        name: "bodies of all sizes up to 64 KiB",
        files: 2_400,
        bytes_max: 16 << 20,
        size: |n| [100, 1_000, 3_000, 10_000, 20_000, 40_000, 64_000][n % 7] + n % 90,
    },
    FileSet { name: "tiny files", files: 20_000, bytes_max: 8 << 20, size: |n| n % 60 },
    FileSet {
        name: "tiny files and a few large ones",
        files: 8_000,
        bytes_max: 8 << 20,
        size: |n| if n % 50 == 0 { 60_000 } else { n % 60 },
    },
];

fn write(set: &FileSet, root: &Path) {
    for n in 0..set.files {
        let directory = root.join(format!("{}", n / 1_000));
        if n % 1_000 == 0 {
            fs::create_dir(&directory).unwrap();
        }
        fs::write(directory.join(name(n)), vec![b'x'; (set.size)(n)]).unwrap();
    }
}

fn name(n: usize) -> String {
    format!("a-file-of-the-set-{n}.txt")
}

/// Asks for every file once and again, and gives the status of each answer to `seen`.
fn ask_for_all(service: &mut Service, set: &FileSet, mut seen: impl FnMut(u16)) {
    let unix_ms = flyball_sys::clock::unix_ms() + AGE_MS;
    let (now, mut head) = (Now::new(0, unix_ms), Head::default());
    for n in (0..set.files).flat_map(|n| [n, n]) {
        let bytes = format!("GET /{}/{} HTTP/1.1\r\nHost: a\r\n\r\n", n / 1_000, name(n));
        scan::parse_head(bytes.as_bytes(), &Limits::default(), &mut head).unwrap();
        let mut lookup = service.lookup(head.request(bytes.as_bytes()), &now);
        let status = loop {
            match lookup {
                Lookup::Answer(answer) => break answer.status,
                Lookup::Wait(mut plan) => {
                    plan.run();
                    lookup = service.resume(*plan, &now);
                }
                Lookup::Stream(..) | Lookup::Respond(_) => panic!("all are files"),
            }
        };
        seen(status.code());
    }
    service.rest();
}

/// Fills caches; how many bytes the heap grew by.
fn fill(set: &FileSet, root: &Path, policy: CachePolicy, shared: bool) -> i64 {
    let site = SiteSettings { root: Some(root.to_owned()), ..SiteSettings::default() };
    let sites = Arc::new(Sites::open(&[site], &flyball_sys::sandbox::Rights::OWN).unwrap());
    let settings = CacheSettings {
        content_bytes_max: set.bytes_max,
        paths_max: 1 << 20,
        policy,
        ..CacheSettings::default()
    };
    let before = alloc::live_bytes();
    let mut service = match shared {
        true => Service::sharing(sites, &SharedCaches::new(settings)),
        false => Service::new(sites, settings),
    };
    let mut highest = 0;
    ask_for_all(&mut service, set, |status| {
        assert_eq!(status, 200);
        highest = highest.max(alloc::live_bytes() - before);
    });
    let counts = service.cache_counts();
    assert!(counts.content_evictions > 0, "{}: it was never full", set.name);
    let most = set.bytes_max as i64;
    // What is on its way in, and is not in the cache yet, is beside the limit.
    let on_its_way = 2 * 65_536;
    let bound = most + most / TOLERANCE as i64 + on_its_way;
    assert!(highest <= bound, "{}, {policy:?}: {highest} of {most}", set.name);
    alloc::live_bytes() - before
}

/// The allocator counts for the whole process: one test at a time.
static COUNTING: Mutex<()> = Mutex::new(());

#[test]
fn full_caches_take_what_the_limit_says_to_within_a_twentieth() {
    full_caches_of(&SETS[..1]);
}

#[test]
#[ignore = "full tier"]
fn caches_full_of_tiny_files_take_what_the_limit_says_to_within_a_twentieth() {
    full_caches_of(&SETS[1..]);
}

fn full_caches_of(sets: &[FileSet]) {
    let _alone = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
    for set in sets {
        let directory = tempfile::tempdir().unwrap();
        write(set, directory.path());
        for (policy, shared) in [
            (CachePolicy::Lru, false),
            (CachePolicy::Lfu, false),
            (CachePolicy::Structured, false),
            (CachePolicy::Lru, true),
        ] {
            let heap = fill(set, directory.path(), policy, shared);
            let ratio = heap as f64 / set.bytes_max as f64;
            let kind = if shared { "shared" } else { "private" };
            println!("{}, {policy:?}, {kind}: {ratio:.3} of the limit", set.name);
            let tolerance = 1.0 / TOLERANCE as f64;
            assert!((ratio - 1.0).abs() <= tolerance, "{}, {policy:?}, {kind}: {ratio}", set.name);
        }
    }
}
