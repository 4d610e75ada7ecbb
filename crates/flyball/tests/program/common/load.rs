//! A steady load while something happens to the server: a client whose request fails, or whose
//! connection is refused, fails the test.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use flyball_testkit::{Client, wait};

use super::{Server, get, last_get, wait_for};

/// Requests that each kind of client makes at least between two changes.
const REQUESTS_BETWEEN: u64 = 20;

/// Between two requests of a client: the load is steady, not as much as there can be.
const PACE: Duration = Duration::from_millis(1);

/// What clients did since the last change.
#[derive(Default)]
pub struct Done {
    kept: AtomicU64,
    new: AtomicU64,
    stop: AtomicBool,
    failed: AtomicBool,
}

impl Done {
    /// Waits until every kind of client has been answered some more.
    #[track_caller]
    pub fn wait_for_more(&self) {
        self.kept.store(0, Relaxed);
        self.new.store(0, Relaxed);
        wait_for("answers to all clients", || {
            let enough = |count: &AtomicU64| count.load(Relaxed) >= REQUESTS_BETWEEN;
            assert!(!self.failed.load(Relaxed), "a client failed");
            (enough(&self.kept) && enough(&self.new)).then_some(())
        });
    }
}

/// Lets the clients end, also when the test fails.
struct StopOnDrop<'a>(&'a Done);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Relaxed);
    }
}

/// Says that a client failed, when it ends by a panic.
struct SayFailure<'a>(&'a Done);

impl Drop for SayFailure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Relaxed);
        }
    }
}

/// Asks again and again on a connection that is kept as long as the server keeps it.
fn keep_asking(port: u16, done: &Done) {
    let _say = SayFailure(done);
    let mut client = connect(port);
    while !done.stop.load(Relaxed) {
        let answer = client.ask(get("/small.txt"));
        assert_eq!((answer.status(), answer.body.len()), (200, 1024));
        if answer.field("Connection") == Some("close") {
            client.expect_closed();
            client = connect(port);
        }
        done.kept.fetch_add(1, Relaxed);
        wait::dawdle(PACE);
    }
}

/// Asks once on each connection.
fn keep_connecting(port: u16, done: &Done) {
    let _say = SayFailure(done);
    while !done.stop.load(Relaxed) {
        let mut client = connect(port);
        assert_eq!(client.ask(last_get("/small.txt")).status(), 200);
        client.expect_closed();
        done.new.fetch_add(1, Relaxed);
        wait::dawdle(PACE);
    }
}

fn connect(port: u16) -> Client {
    Client::connect(([127, 0, 0, 1], port).into())
}

/// Does this while clients ask for `/small.txt`, of 1,024 bytes. A client that fails panics, which
/// is passed on.
pub fn under_load(server: &Server, what: impl FnOnce(&Done)) {
    let (done, port) = (Done::default(), server.port);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&done);
        for _ in 0..2 {
            scope.spawn(|| keep_asking(port, &done));
            scope.spawn(|| keep_connecting(port, &done));
        }
        what(&done);
    });
}
