//! A site, and what a driver does for its connections.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use flyball_conn::{
    Account, Agreed, ClientSettings, Connection, Context, Hellos, Lender, Needs, Peer, RequestLog,
    Tried, Turn,
};
use flyball_http::{Head, Limits, Now};
use flyball_observe::counters::{Blocks, Tally};
use flyball_observe::log::LogSender;
use flyball_observe::trace::{Ring, Tracer};
use flyball_observe::writers::Writers;
use flyball_site::{CacheSettings, Service, SiteSettings, Sites};
use flyball_sys::sandbox::Rights;
use tempfile::TempDir;

pub(crate) const REQUEST: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n";
pub(crate) const LAST: &[u8] = b"GET /small.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// A site of one file, and a context to serve it in, whose time stands still.
pub(crate) fn site() -> (TempDir, Context) {
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
        turn: Turn::new(|| 0, 0),
        tried: Tried::default(),
        buffers: Lender::default(),
        hellos: Hellos::default(),
        agreed: Agreed::default(),
    };
    (root, context)
}

pub(crate) fn accepted(cx: &mut Context) -> Connection {
    accepted_from(SocketAddr::from(([192, 0, 2, 1], 1)).into(), cx)
}

/// The same of this peer.
pub(crate) fn accepted_from(peer: Peer, cx: &mut Context) -> Connection {
    let mut connection = Connection::new(peer, cx);
    connection.go_on(&mut Needs::default(), cx);
    connection
}

pub(crate) fn give(connection: &mut Connection, bytes: &[u8], cx: &mut Context) {
    connection.space(cx)[..bytes.len()].copy_from_slice(bytes);
    connection.received(bytes.len(), cx);
}

pub(crate) fn needs(connection: &Connection) -> Needs {
    let mut needs = Needs::default();
    connection.needs(&mut needs);
    needs
}

/// Performs the plans that it asks for.
pub(crate) fn perform(connection: &mut Connection, cx: &mut Context) {
    while let Some(ask) = needs(connection).asks.first() {
        let mut plan = connection.take_plan(ask).unwrap();
        plan.run();
        connection.done(*plan, cx);
    }
}

/// Has the socket take all of its output.
pub(crate) fn send(connection: &mut Connection, cx: &mut Context) -> u64 {
    let mut sent = 0;
    while let Some(out) = connection.out() {
        let queued = out.queued();
        connection.sent(queued, cx);
        sent += queued;
    }
    sent
}
