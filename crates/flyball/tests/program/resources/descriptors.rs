//! Out of descriptors: stop accepting, keep serving, say so once, recover.
use std::time::Duration;

use crate::common::{Launch, Server, Site, get, has};
use flyball_testkit::{Client, skip};

/// Descriptors that the server may open: room for its least number of connections, and no more.
const DESCRIPTORS: &str = "--nofile=64";

/// So few that not even those connections fit, and descriptors do run out.
const FEW_DESCRIPTORS: &str = "--nofile=24";

/// Connections that are opened; more than fit.
const OPENED: usize = 100;

/// Connections that fit whatever else the server has open.
const SERVED: usize = 16;

/// Connections that fit even among few descriptors.
const FEW_SERVED: usize = 6;

/// How long nothing comes on a connection that is not accepted.
const SILENCE: Duration = Duration::from_millis(300);

/// Who is idle keeps its place however many wait.
const KEEPS_IDLE: &str = "close.idle-when-full=false";

/// Connections that were opened one after the other, each with a request, those that are to be
/// served before the others.
fn open(server: &Server, served: usize) -> Vec<Client> {
    let open_one = |at| {
        let mut client = server.connect();
        client.send(get("/small.txt"));
        if at < served {
            assert_eq!(client.response().status(), 200, "connection {at}");
        }
        client
    };
    (0..OPENED).map(open_one).collect()
}

/// What the event loops and the ring say.
const PAUSED: &str = "accepting is paused";

/// What threads say, which wait in accept one by one and each hold a descriptor while they do.
const FEWER_THREADS: &str = "16 of 200 threads run";

#[track_caller]
fn runs_out_and_recovers(launch: Launch, served: usize, message: &str) {
    let server = launch.start();
    // The file is in memory from here on: an answer needs no descriptor.
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let mut clients = open(&server, served);
    server.errors.wait_for(message, |errors| errors.contains(message));
    for client in &mut clients[..served] {
        assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
    }
    clients[OPENED - 1].expect_silence(SILENCE);
    // Each that leaves makes room for one that waits.
    for (at, client) in clients.drain(..).enumerate() {
        let mut client = client;
        if at >= served {
            assert_eq!(client.response().status(), 200, "connection {at}");
        }
    }
    // And again: it recovers more than once, and says nothing more.
    let mut clients = open(&server, 1);
    clients[OPENED - 1].expect_silence(SILENCE);
    assert_eq!(clients[0].ask(get("/small.txt")).status(), 200);
    drop(clients);
    assert_eq!(server.connect().ask(get("/small.txt")).status(), 200);
    let said = server.errors.so_far();
    assert_eq!(said.lines().count(), 1, "it is said once and nothing else is: {said}");
}

fn limited(site: &Site, arch: &str, descriptors: &str) -> Launch {
    let launch = Launch::under(&["prlimit", descriptors, "--"], site, arch);
    launch.args(&["--workers", "1"]).set(KEEPS_IDLE)
}

/// Descriptors do run out. None is left for a look at a file then, so none is due.
fn out_of(site: &Site, arch: &str) -> Launch {
    limited(site, arch, FEW_DESCRIPTORS).set("cache.revalidate=1h")
}

fn small_site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

#[test]
fn sped_stops_accepting_when_descriptors_are_out_and_recovers() {
    if has("prlimit") {
        let site = small_site();
        runs_out_and_recovers(out_of(&site, "sped"), FEW_SERVED, PAUSED);
    }
}

#[test]
fn a_bound_on_connections_that_descriptors_cannot_hold_is_lowered_and_said() {
    if has("prlimit") {
        let site = small_site();
        let launch = limited(&site, "sped", DESCRIPTORS).args(&["--max-connections", "1000"]);
        let server = launch.start();
        let warning = "the descriptor limit leaves room for 16";
        server.errors.wait_for(warning, |errors| errors.contains(warning));
    }
}

#[test]
#[ignore = "full tier"]
fn no_more_connections_are_served_than_allowed() {
    let site = small_site();
    for arch in [
        "sped",
        "shared-symped",
        "amped",
        "mt",
        "thread-per-connection",
        "knot-c",
        "knot-a",
        "watpipe",
        "tux",
        "uring",
    ] {
        for limit in ["16", "inf"] {
            let launch =
                Launch::new(&site, arch).args(&["--workers", "1", "--max-connections", "2"]);
            let server = launch.args(&["--accept-limit", limit]).set(KEEPS_IDLE).start();
            let mut clients = [server.connect(), server.connect(), server.connect()];
            assert_eq!(clients[0].ask(get("/small.txt")).status(), 200, "{arch}");
            assert_eq!(clients[1].ask(get("/small.txt")).status(), 200, "{arch}");
            clients[2].send(get("/small.txt"));
            clients[2].expect_silence(SILENCE);
            let [first, _second, mut third] = clients;
            drop(first);
            assert_eq!(third.response().status(), 200, "{arch} at accept-limit {limit}");
        }
    }
}

#[test]
fn sped_leaves_room_for_its_files_when_connections_are_bounded_by_descriptors() {
    if has("prlimit") {
        let site = small_site();
        runs_out_and_recovers(limited(&site, "sped", DESCRIPTORS), SERVED, PAUSED);
    }
}

#[test]
fn amped_stops_accepting_when_descriptors_are_out_and_recovers() {
    if has("prlimit") {
        let site = small_site();
        runs_out_and_recovers(out_of(&site, "amped"), FEW_SERVED, PAUSED);
    }
}

#[test]
fn shared_symped_stops_accepting_when_descriptors_are_out_and_recovers() {
    if has("prlimit") {
        let site = small_site();
        runs_out_and_recovers(out_of(&site, "shared-symped"), FEW_SERVED, PAUSED);
        runs_out_and_recovers(limited(&site, "shared-symped", DESCRIPTORS), SERVED, PAUSED);
    }
}

#[test]
fn mt_stops_accepting_when_descriptors_are_out_and_recovers() {
    if has("prlimit") {
        let site = small_site();
        let launch = limited(&site, "mt", DESCRIPTORS).set("mt.threads=200");
        runs_out_and_recovers(launch, SERVED, FEWER_THREADS);
    }
}

#[test]
fn thread_per_connection_stops_accepting_when_descriptors_are_out_and_recovers() {
    if has("prlimit") {
        let site = small_site();
        runs_out_and_recovers(out_of(&site, "thread-per-connection"), FEW_SERVED, PAUSED);
        runs_out_and_recovers(limited(&site, "thread-per-connection", DESCRIPTORS), SERVED, PAUSED);
    }
}

#[test]
fn uring_stops_accepting_when_descriptors_are_out_and_recovers() {
    if !has("prlimit") {
        return;
    }
    if flyball_arch::find("uring").is_none_or(|arch| arch.probe().is_err()) {
        return skip("io_uring cannot be used here");
    }
    let site = small_site();
    runs_out_and_recovers(out_of(&site, "uring"), FEW_SERVED, PAUSED);
    let launch = out_of(&site, "uring").args(&["--accept-limit", "inf"]);
    runs_out_and_recovers(launch, FEW_SERVED, PAUSED);
}

#[test]
fn tux_stops_accepting_when_descriptors_are_out_and_recovers() {
    if !has("prlimit") {
        return;
    }
    if flyball_arch::find("tux").is_none_or(|arch| arch.probe().is_err()) {
        return skip("io_uring cannot be used here");
    }
    let site = small_site();
    runs_out_and_recovers(out_of(&site, "tux"), FEW_SERVED, PAUSED);
    let launch = out_of(&site, "tux").args(&["--accept-limit", "inf"]);
    runs_out_and_recovers(launch, FEW_SERVED, PAUSED);
}
