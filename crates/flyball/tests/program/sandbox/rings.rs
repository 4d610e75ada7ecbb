//! What the ring of a running worker refuses. seccomp sees none of its operations, so that the ring
//! itself must refuse what the server does not need (io_uring_register(2),
//! IORING_REGISTER_RESTRICTIONS): a foreign hand puts operations into it as an attacker who took
//! the worker over would.

use flyball_testkit::foreign::{Seized, libc};

use crate::common::proc_status;

const EACCES: i64 = -13;
const EBADF: i64 = -9;

/// Operations that no worker needs, by number (io_uring_enter(2)), with what they are.
const FORBIDDEN: &[(u8, &str)] = &[
    (0, "nothing"),
    (8, "sync_file_range"),
    (16, "connect"),
    (17, "fallocate"),
    (18, "openat"),
    (20, "files_update"),
    (23, "write"),
    (25, "madvise"),
    (29, "epoll_ctl"),
    (30, "splice"),
    (35, "renameat"),
    (36, "unlinkat"),
    (37, "mkdirat"),
    (38, "symlinkat"),
    (40, "msg_ring"),
    (42, "setxattr"),
    (45, "socket"),
];

/// The operation `close`, which workers need.
const CLOSE: u8 = 19;

/// What may not be registered, by number, with what it is.
const REGISTRATIONS: &[(u64, &str)] = &[
    (2, "files"),
    (4, "an event descriptor"),
    (6, "other files"),
    (9, "credentials"),
    (11, "other restrictions"),
    (17, "the processors of its threads"),
    (19, "the number of its threads"),
    (20, "a ring"),
];

/// The user data of completions that are not waited for.
const UNAWAITED: u64 = u64::MAX;

/// Bytes of a submission and where its fields are, as in `struct io_uring_sqe`.
const ENTRY_BYTES: u64 = 64;
const USER_DATA_AT: usize = 32;

/// Where the mapping of the submissions begins in the file of a ring.
const ENTRIES_OFFSET: &str = "10000000";

/// The ring of a process, as the kernel tells of it, and where it lies in its memory.
struct Ring {
    process: u32,
    descriptor: u64,
    /// Where the head and the tail of the submissions are.
    shared: u64,
    entries: u64,
}

impl Ring {
    /// The only ring of a process, if it has one.
    fn of(process: u32) -> Option<Ring> {
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs");
        let is_ring = |entry: &std::fs::DirEntry| {
            let to = std::fs::read_link(entry.path()).unwrap_or_default();
            to.to_str() == Some("anon_inode:[io_uring]")
        };
        let names = open.flatten().filter(is_ring).map(|entry| entry.file_name());
        let rings: Vec<u64> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
        let [descriptor] = rings[..] else {
            assert!(rings.is_empty(), "{process} has several rings: {rings:?}");
            return None;
        };
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("it runs");
        let at = |offset: &str| {
            let mut lines = maps.lines().filter(|line| line.ends_with("anon_inode:[io_uring]"));
            let line = lines.find(|line| line.split(' ').nth(2) == Some(offset));
            let start = line.and_then(|line| line.split('-').next()).expect("the ring is mapped");
            u64::from_str_radix(start, 16).expect("an address")
        };
        Some(Ring { process, descriptor, shared: at("00000000"), entries: at(ENTRIES_OFFSET) })
    }

    fn told(&self) -> String {
        let path = format!("/proc/{}/fdinfo/{}", self.process, self.descriptor);
        std::fs::read_to_string(path).expect("the kernel tells of the ring")
    }

    /// A number that the kernel tells of the ring.
    fn number(&self, name: &str) -> u32 {
        let told = self.told();
        let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.unwrap_or_else(|| panic!("no {name} in {told}")).trim();
        match value.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).expect("a number"),
            None => value.parse().expect("a number"),
        }
    }

    /// Submits an operation on no descriptor: its result, or the error of submitting.
    fn submit(&self, hand: &mut Seized, operation: u8) -> i64 {
        let (tail, mask) = (self.number("SqTail"), self.number("SqMask"));
        let mut entry = [0; ENTRY_BYTES as usize];
        entry[0] = operation;
        entry[4..8].copy_from_slice(&(-1_i32).to_ne_bytes());
        entry[USER_DATA_AT..USER_DATA_AT + 8].copy_from_slice(&UNAWAITED.to_ne_bytes());
        hand.write(self.entries + u64::from(tail & mask) * ENTRY_BYTES, &entry);
        let tail_at = self.tail_at(hand, tail);
        hand.write(tail_at, &tail.wrapping_add(1).to_ne_bytes());
        let before = self.results();
        let done = hand.call(libc::SYS_io_uring_enter, &[self.descriptor, 1, 0, 0]);
        let done = done.expect("it runs");
        if done < 0 {
            return done;
        }
        let results = self.results();
        assert_eq!((done, results.len()), (1, before.len() + 1), "{}", self.told());
        results[before.len()]
    }

    /// Where the tail is: behind the head, on newer kernels in the same line of the cache.
    fn tail_at(&self, hand: &Seized, tail: u32) -> u64 {
        let is_there = |at: &u64| hand.get(self.shared + at, 4) == tail.to_ne_bytes();
        let found = [4, 64].into_iter().find(is_there);
        self.shared + found.expect("the tail is behind the head")
    }

    /// The results, not looked at yet, of what is not waited for, oldest first.
    fn results(&self) -> Vec<i64> {
        let told = self.told();
        let unawaited = format!("user_data:{UNAWAITED}, res:");
        let results = told.lines().filter_map(|line| line.split_once(&unawaited));
        let number = |(_, rest): (&str, &str)| rest.split(',').next()?.parse().ok();
        results.filter_map(number).collect()
    }
}

/// Tries what the ring of this process must refuse. A process without a ring is left alone: false.
pub(crate) fn try_ring(process: u32) -> bool {
    let Some(ring) = Ring::of(process) else { return false };
    let mut hand = Seized::attach(process);
    assert_eq!(proc_status(process, "Seccomp").as_deref(), Some("2"), "it is confined");
    // What it needs is done, so that the others are refused for what they are.
    assert_eq!(ring.submit(&mut hand, CLOSE), EBADF, "closing no descriptor in {process}");
    for (operation, what) in FORBIDDEN {
        assert_eq!(ring.submit(&mut hand, *operation), EACCES, "{what} in {process}");
    }
    for (registration, what) in REGISTRATIONS {
        let registered = hand.call(libc::SYS_io_uring_register, &[ring.descriptor, *registration]);
        assert_eq!(registered, Ok(EACCES), "registering {what} in {process}");
    }
    true
}
