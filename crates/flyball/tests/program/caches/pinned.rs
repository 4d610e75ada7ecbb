//! The pinned cache of `tux`: what it holds is locked in memory, stays, and is served as it is.
use crate::common::{Launch, Server, Site, get, has, proc_status, wait_for};
use flyball_sys::pinned::Pinned;
use flyball_testkit::{Client, skip, wait};

/// Bytes of each body.
const BYTES: usize = 50_000;

/// The limit on locked memory, where there is one: a ring and one body fit, a second body does not.
const LOCKED_MAX: usize = 256 * 1024;

/// Files of the site.
const FILES: usize = 8;

fn site() -> Site {
    let names: Vec<String> = (0..FILES).map(|at| format!("{at}.txt")).collect();
    let files: Vec<(&str, &[u8])> =
        names.iter().map(|name| (name.as_str(), &[b'x'; BYTES][..])).collect();
    Site::with(&files)
}

fn runs_here() -> bool {
    let runs = flyball_arch::find("tux").is_some_and(|arch| arch.probe().is_ok());
    if !runs {
        skip("io_uring cannot be used here");
    }
    runs
}

fn serve_all(server: &Server) {
    let mut client = server.connect();
    for at in 0..FILES {
        assert_eq!(client.ask(get(&format!("/{at}.txt"))).body, [b'x'; BYTES]);
    }
}

fn locked_kib(server: &Server) -> usize {
    let locked = proc_status(server.worker(), "VmLck").expect("the kernel tells");
    locked.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
}

#[test]
fn cached_bodies_are_locked_in_memory_by_tux_alone() {
    if !runs_here() {
        return;
    }
    let site = site();
    for (arch, bodies) in [("tux", FILES), ("sped", 0)] {
        let expected = bodies * Pinned::cost(BYTES) / 1024;
        let server = Launch::new(&site, arch).start();
        assert_eq!(locked_kib(&server), 0, "{arch}");
        wait_for("every cached body to be locked", || {
            serve_all(&server);
            (locked_kib(&server) == expected).then_some(())
        });
        // Asking again locks no more.
        serve_all(&server);
        assert_eq!(locked_kib(&server), expected, "{arch}");
    }
}

#[test]
fn a_body_that_may_not_be_locked_is_cached_all_the_same_and_that_is_said_once() {
    if !runs_here() || !has("setpriv") || !has("prlimit") {
        return;
    }
    let site = site();
    let limit = format!("--memlock={LOCKED_MAX}");
    let bounded = ["setpriv", "--bounding-set", "-ipc_lock", "prlimit", &limit, "--"];
    // The limit holds for all rings of a user, and other tests have some for as long as a minute: a
    // worker that finds no room is started again.
    let server = wait::until(wait::DEADLINE, || {
        let launch = Launch::under(&bounded, &site, "tux").set("uring.entries=8");
        match launch.try_start() {
            // Its worker may find no room where the master still had some.
            Ok(server) => {
                let mut client = Client::try_connect(([127, 0, 0, 1], server.port).into())?;
                client.try_ask(get("/0.txt")).map(|_| server)
            }
            Err((_, said)) if said.contains("Cannot allocate memory") => None,
            Err((status, said)) => panic!("{status}: {said}"),
        }
    });
    let server = server.expect("room for a ring");
    wait_for("what is not locked to be said", || {
        serve_all(&server);
        server.errors.so_far().contains("cached bodies may be swapped out").then_some(())
    });
    assert!(locked_kib(&server) <= LOCKED_MAX / 1024);
    serve_all(&server);
    let said = server.errors.so_far();
    assert_eq!(said.matches("cached bodies may be swapped out").count(), 1, "{said}");
}
