//! What one client may take holds over all workers, and what a dead worker held is free.
use crate::common::{Launch, Server, Site, children, get, proc_status, signal, wait_for};
use flyball_testkit::Client;

/// Connections that one client may have.
const MOST: usize = 4;

fn site() -> Site {
    Site::with(&[("small.txt", b"small\n")])
}

fn start(site: &Site, arch: &str) -> Server {
    let launch = Launch::new(site, arch).args(&["--workers", "2"]);
    launch.set(&format!("limit.connections-per-address={MOST}")).start()
}

/// Kills processes, and waits until the master has seen it: a thread of one that is about to end
/// may still take a connection, which is reset then.
fn kill(processes: &[u32]) {
    for process in processes {
        signal(*process, "KILL");
    }
    wait_for("their end", || {
        (!processes.iter().any(|one| proc_status(*one, "State").is_some())).then_some(())
    });
}

/// A connection and the status of its first answer.
fn answered(server: &Server) -> (Client, u16) {
    let mut client = server.connect();
    client.try_send(get("/small.txt"));
    let status = client.response().status();
    (client, status)
}

/// As many connections as one client may have: one more is refused.
fn fill(server: &Server) -> Vec<Client> {
    let open: Vec<Client> = (0..MOST)
        .map(|_| {
            // What those held who were just killed is free when that has been noticed.
            wait_for("an answer", || {
                let (client, status) = answered(server);
                (status == 200).then_some(client)
            })
        })
        .collect();
    assert_eq!(answered(server).1, 429);
    open
}

#[test]
fn workers_share_the_limit_and_the_dead_hold_nothing() {
    let site = site();
    for arch in ["n-copy", "symped", "mt"] {
        let server = start(&site, arch);
        let workers = server.children(2);
        let open = fill(&server);
        // Those connections end with their workers: no client has closed them.
        kill(&workers);
        let again = fill(&server);
        drop((open, again));
    }
}

#[test]
fn a_process_of_a_group_that_dies_holds_nothing() {
    let site = site();
    let server = start(&site, "shared-symped");
    let leader = server.worker();
    let members = wait_for("the group", || {
        let members = children(leader);
        (members.len() == 2).then_some(members)
    });
    let open = fill(&server);
    kill(&members);
    let again = fill(&server);
    drop((open, again));
}

/// Sockets of a ring's own table cannot tell whose they are: a limit of a path needs others.
#[test]
fn a_ring_tells_clients_apart_of_whom_each_may_ask_so_often_for_a_path() {
    let site = site();
    let root = crate::common::text(site.path());
    let limit = "[[site.limit]]\npath = \"/\"\nrequests-per-address = 1\n";
    let config = format!("arch = \"uring\"\nworkers = 1\n[[site]]\nroot = {root:?}\n{limit}");
    let server = match flyball_testkit::Launch::config(config).start() {
        Err(refused) if refused.is_unavailable() => return,
        started => started.expect("it starts"),
    };
    for last in 2..5 {
        let mut client = Client::connect_from([127, 0, 0, last].into(), server.address());
        client.send(get("/small.txt").repeat(2));
        let statuses = [0; 2].map(|_| client.response().status());
        assert_eq!(statuses, [200, 429], "{last}");
    }
}

#[test]
fn requests_that_come_too_fast_are_counted() {
    let site = site();
    let launch = Launch::new(&site, "sped").set("limit.requests-per-address=1");
    let server = launch.set("limit.requests-burst=3").args(&["--admin", "127.0.0.1:0"]).start();
    let mut client = server.connect();
    let statuses: Vec<u16> = (0..20).map(|_| client.ask(get("/small.txt")).status()).collect();
    let refused = statuses.iter().filter(|status| **status == 429).count() as u64;
    assert!(refused > 0, "{statuses:?}");
    let counted = wait_for("the counter", || {
        let counted = server.counter("requests_throttled");
        (counted >= refused).then_some(counted)
    });
    assert_eq!(counted, refused);
}
