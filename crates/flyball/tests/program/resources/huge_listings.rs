//! The listing of a huge directory costs bounded memory and does not keep others waiting.
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::common::{Launch, Server, Site, architectures, descendants, get, proc_status};
use flyball_testkit::Client;

/// Files in the directory.
const FILES: usize = 100_000;

/// Listings of it that are under way at once.
const LISTINGS: usize = 4;

/// Memory that they may take together, in KiB; a page of it is 20 MB, and its entries are more.
const KIB_MAX: u64 = 16 * 1024;

/// Requests of another client that are answered while they are under way. Fewer listings than that
/// come to their ends meanwhile: none has to for another to be answered.
const OTHERS: usize = 50;

#[test]
#[ignore = "full tier"]
fn a_hundred_thousand_files_are_listed_in_little_memory_while_others_are_served() {
    let site = Site::with(&[("small.txt", &[b'x'; 1024])]);
    std::fs::create_dir(site.path().join("huge")).expect("a directory");
    for at in 0..FILES {
        File::create(site.path().join(format!("huge/file-{at:06}"))).expect("a file");
    }
    for arch in architectures() {
        listed_in_little_memory_while_others_are_served(&site, arch);
    }
}

fn listed_in_little_memory_while_others_are_served(site: &Site, arch: &str) {
    // Where each is served by a process, each has one, and keeps it.
    let launch = Launch::new(site, arch).workers_for(arch, LISTINGS + 1);
    let server = launch.set("close.idle-when-full=false").start();
    let mut clients: Vec<Client> = (0..=LISTINGS).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask(get("/small.txt")).status(), 200);
        // What one needs for the first time is not what many need at once.
        assert_eq!(client.ask(get("/")).status(), 200);
    }
    let before = peak_kib(&server);
    let mut other = clients.pop().expect("there is another");
    clients.iter_mut().for_each(ask_for_listing);
    let (ended, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let ended_meanwhile = std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(|| {
                read_listing(client);
                while ended.fetch_add(1, Relaxed) < OTHERS && !enough.load(Relaxed) {
                    ask_for_listing(client);
                    read_listing(client);
                }
            });
        }
        for _ in 0..OTHERS {
            assert_eq!(other.ask(get("/small.txt")).body.len(), 1024);
        }
        let ended_meanwhile = ended.load(Relaxed);
        enough.store(true, Relaxed);
        ended_meanwhile
    });
    let grown = peak_kib(&server).saturating_sub(before);
    println!(
        "{arch}: {grown} KiB for {LISTINGS} listings; {ended_meanwhile} ended before {OTHERS} \
         others were answered"
    );
    assert!(grown <= KIB_MAX, "{arch}: {grown} KiB for {LISTINGS} listings");
    assert!(ended_meanwhile < OTHERS, "{arch}: {ended_meanwhile} ended before {OTHERS} others");
}

/// Begins a listing, which then waits for its reader.
fn ask_for_listing(client: &mut Client) {
    client.send(get("/huge/"));
    let head = client.response_head();
    assert_eq!((head.status(), head.expect("Transfer-Encoding")), (200, "chunked"));
}

/// Reads a listing as fast as it comes.
fn read_listing(client: &mut Client) {
    let (mut rows, mut last) = (0, Vec::new());
    for chunk in client.chunks() {
        // A row may lie across two chunks, but is not here.
        rows += chunk.windows(8).filter(|word| word == b"href=\"./").count();
        last = chunk;
    }
    assert_eq!(rows, FILES);
    assert!(last.ends_with(b"</html>\n"));
}

/// The most memory that the worker ever had, or its processes together.
fn peak_kib(server: &Server) -> u64 {
    let kib = |process: &u32| -> u64 {
        let field = proc_status(*process, "VmHWM").expect("the worker runs");
        field.trim_end_matches("kB").trim().parse().expect("a number")
    };
    descendants(server.master()).iter().map(kib).sum()
}
