//! A connection without a socket: what it wants, and that each wish ends with its call.
#![forbid(unsafe_code)]

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use flyball_conn::{
    Account, ClientSettings, Connection, Context, Lender, Needs, RequestLog, Tried, Turn,
};
use flyball_http::{CloseReason, Head, Limits, Now};
use flyball_observe::counters::{Blocks, Tally};
use flyball_observe::log::LogSender;
use flyball_observe::trace::{Ring, Tracer};
use flyball_observe::writers::Writers;
use flyball_site::{CacheSettings, Service, SiteSettings, Sites};
use flyball_sys::sandbox::Rights;
use tempfile::TempDir;

const REQUEST: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
const LAST: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A site of one file, and a context to serve it in, whose time stands still.
fn site() -> (TempDir, Context) {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("small.txt"), "small").unwrap();
    let site = SiteSettings { root: Some(root.path().into()), ..SiteSettings::default() };
    let sites = Arc::new(Sites::open(&[site], &Rights::OWN).unwrap());
    let account = Account {
        blocks: Arc::new(Blocks::new(1).unwrap()),
        clients: Arc::default(),
        traces: Arc::new(Ring::new().unwrap()),
        block: 0,
        owner: 0,
        writers: Writers::One,
    };
    let context = Context {
        clients: ClientSettings::default(),
        limits: Arc::new(Limits::default()),
        piece_bytes: 64 * 1024,
        service: Service::new(sites, CacheSettings::default()),
        head: Head::default(),
        now: Now::new(1_000, 1_000_000),
        tally: Tally::default(),
        log: RequestLog::new(&LogSender::off()),
        tracer: Tracer::new(0),
        account,
        turn: Turn::new(|| 0),
        tried: Tried::default(),
        buffers: Lender::default(),
    };
    (root, context)
}

fn accepted(cx: &mut Context) -> Connection {
    let mut connection = Connection::new(SocketAddr::from(([192, 0, 2, 1], 1)).into(), cx);
    connection.go_on(&mut Needs::default(), cx);
    connection
}

fn give(connection: &mut Connection, bytes: &[u8], cx: &mut Context) {
    connection.space(cx)[..bytes.len()].copy_from_slice(bytes);
    connection.received(bytes.len(), cx);
}

fn needs(connection: &Connection) -> Needs {
    let mut needs = Needs::default();
    connection.needs(&mut needs);
    needs
}

/// Performs the plans that it asks for.
fn perform(connection: &mut Connection, cx: &mut Context) {
    while let Some(ask) = needs(connection).asks.first() {
        let mut plan = connection.take_plan(ask).unwrap();
        plan.run();
        connection.done(*plan, cx);
    }
}

/// Has the socket take all of its output.
fn send(connection: &mut Connection, cx: &mut Context) -> u64 {
    let mut sent = 0;
    while let Some(out) = connection.out() {
        let queued = out.queued();
        connection.sent(queued, cx);
        sent += queued;
    }
    sent
}

#[test]
fn each_wish_is_gone_after_the_call_that_ends_it() {
    let (_root, mut cx) = site();
    let mut connection = accepted(&mut cx);
    assert!(needs(&connection).reads_only(), "{:?}", needs(&connection));
    give(&mut connection, LAST, &mut cx);
    assert!(needs(&connection).again);
    connection.go_on(&mut Needs::default(), &mut cx);
    assert!(!needs(&connection).again);
    let ask = needs(&connection).asks.first().expect("the caches are empty");
    let mut plan = connection.take_plan(ask).unwrap();
    assert_eq!(needs(&connection).asks.first(), None);
    assert!(connection.take_plan(ask).is_none(), "it is given once");
    plan.run();
    connection.done(*plan, &mut cx);
    assert!(needs(&connection).again);
    perform(&mut connection, &mut cx);
    connection.go_on(&mut Needs::default(), &mut cx);
    assert!(needs(&connection).write);
    assert!(send(&mut connection, &mut cx) > 5);
    connection.go_on(&mut Needs::default(), &mut cx);
    assert!(!needs(&connection).write);
    assert_eq!(needs(&connection).over, Some(CloseReason::Requested));
    connection.end(&mut cx, CloseReason::Requested);
}

#[test]
fn what_is_wanted_is_said_again_and_nothing_changes_by_that() {
    let (_root, mut cx) = site();
    let mut connection = accepted(&mut cx);
    give(&mut connection, REQUEST, &mut cx);
    let mut said = Needs::default();
    connection.go_on(&mut said, &mut cx);
    let asked = said.asks.first();
    assert!(asked.is_some());
    assert_eq!(needs(&connection).asks.first(), asked);
    assert_eq!(needs(&connection).asks.first(), asked);
    perform(&mut connection, &mut cx);
    connection.go_on(&mut said, &mut cx);
    assert!(said.write && needs(&connection).write && needs(&connection).write);
}

#[test]
fn a_plan_under_way_does_not_hide_an_answer_that_can_leave() {
    let (root, mut cx) = site();
    fs::write(root.path().join("other.txt"), "other").unwrap();
    let mut connection = accepted(&mut cx);
    give(&mut connection, REQUEST, &mut cx);
    connection.go_on(&mut Needs::default(), &mut cx);
    perform(&mut connection, &mut cx);
    give(&mut connection, b"GET /other.txt HTTP/1.1\r\nHost: a\r\n\r\n", &mut cx);
    connection.go_on(&mut Needs::default(), &mut cx);
    let ask = needs(&connection).asks.first().expect("the other file is not cached");
    let mut plan = connection.take_plan(ask).unwrap();
    assert!(needs(&connection).write, "{:?}", needs(&connection));
    send(&mut connection, &mut cx);
    connection.go_on(&mut Needs::default(), &mut cx);
    assert!(!needs(&connection).write);
    plan.run();
    connection.done(*plan, &mut cx);
    perform(&mut connection, &mut cx);
    assert!(send(&mut connection, &mut cx) > 5);
}

#[test]
fn a_connection_that_rests_gives_its_buffers_back_and_goes_on_with_others() {
    let (_root, mut cx) = site();
    let (mut one, mut other) = (accepted(&mut cx), accepted(&mut cx));
    for connection in [&mut one, &mut other] {
        give(connection, REQUEST, &mut cx);
        connection.go_on(&mut Needs::default(), &mut cx);
        let ask = needs(connection).asks.first();
        let plan = ask.and_then(|ask| connection.take_plan(ask));
        // While its plan is under way it holds none.
        connection.rest(&mut cx);
        if let Some(mut plan) = plan {
            plan.run();
            connection.done(*plan, &mut cx);
        }
        perform(connection, &mut cx);
        connection.go_on(&mut Needs::default(), &mut cx);
        assert!(send(connection, &mut cx) > 5);
        connection.rest(&mut cx);
        connection.go_on(&mut Needs::default(), &mut cx);
        assert!(needs(connection).reads_only());
    }
}
