//! What a connection wants, and that each wish ends with its call.

use std::fs;
use std::sync::Arc;

use flyball_conn::{ClientLimits, Connection, Context, Needs, SocketNeed};
use flyball_http::CloseReason;
use flyball_site::{CacheSettings, LimitSettings, Service, SiteSettings, Sites};
use flyball_sys::clients::Holders;
use flyball_sys::sandbox::Rights;

use crate::site::{LAST, REQUEST, accepted, give, needs, perform, send, site};

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
    connection.end(&mut cx, CloseReason::Requested, || 0);
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

/// What a connection wants of its socket before it sends the answer for this path.
fn asks(connection: &mut Connection, path: &str, cx: &mut Context) -> Vec<SocketNeed> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    give(connection, request.as_bytes(), cx);
    connection.go_on(&mut Needs::default(), cx);
    perform(connection, cx);
    connection.go_on(&mut Needs::default(), cx);
    let mut wanted = Vec::new();
    while let Some(need) = needs(connection).socket {
        wanted.push(need);
        match need {
            SocketNeed::Pace(bytes_per_s) => connection.paced(bytes_per_s),
            SocketNeed::Unsent(bytes) => connection.bounded(bytes),
            SocketNeed::Shut | SocketNeed::Acknowledge => panic!("{need:?} is not wanted"),
        }
    }
    assert!(send(connection, cx) > 0);
    wanted
}

#[test]
fn a_socket_holds_little_where_connections_are_counted_or_paced_and_what_it_can_elsewhere() {
    let (root, mut cx) = site();
    let limits = vec![
        LimitSettings {
            path: Some("/small.txt".to_owned()),
            connections: Some(1),
            ..LimitSettings::default()
        },
        LimitSettings {
            path: Some("/paced".to_owned()),
            bandwidth: Some(1_000_000),
            ..LimitSettings::default()
        },
    ];
    let root = Some(root.path().into());
    let site = SiteSettings { root, limits, ..SiteSettings::default() };
    let sites = Arc::new(Sites::open(&[site], &Rights::OWN).unwrap());
    cx.service = Service::new(sites, CacheSettings::default());
    let connections = Some(Arc::new(Holders::new(1).unwrap()));
    cx.account.clients = Arc::new(ClientLimits { connections, ..ClientLimits::default() });
    let mut connection = accepted(&mut cx);
    let mut asks = |path| asks(&mut connection, path, &mut cx);
    assert_eq!(asks("/free"), []);
    assert_eq!(asks("/small.txt"), [SocketNeed::Unsent(128 * 1024)]);
    assert_eq!(asks("/small.txt"), [], "it is as it was");
    let paced = [SocketNeed::Pace(1_000_000), SocketNeed::Unsent(1_000_000)];
    assert_eq!(asks("/paced"), paced);
    assert_eq!(asks("/free"), [SocketNeed::Pace(u64::MAX), SocketNeed::Unsent(0)]);
    assert_eq!(asks("/free"), []);
}
