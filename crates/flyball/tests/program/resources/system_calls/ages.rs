//! Logs that tell how long clients have waited.

use std::collections::BTreeMap;

use super::{EVENT_DRIVEN, ROUNDS, site, without_waits};
use crate::common::trace::{Call, Traced, tally};
use crate::common::{has, last_get};

#[test]
fn a_connection_is_asked_once_how_long_it_waited_where_the_log_tells_it() {
    if !has("strace") {
        return;
    }
    let site = site();
    for arch in EVENT_DRIVEN {
        let log = ["access-log=/dev/null", "log.format=waited $queued_ms $age_ms"];
        let traced = Traced::start(&site, arch, &["accept.limit=1", log[0], log[1]]);
        let mut marker = traced.warm("/small.txt");
        traced.warm_and_close("/small.txt");
        let calls = traced.calls(&mut marker, |_| {
            for _ in 0..ROUNDS {
                let mut client = traced.server.connect();
                assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
                client.expect_closed();
            }
        });
        // Lines that have waited for a second are handed over.
        let (_, calls): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| call.arguments.contains("waited "));
        let (counts, _) = without_waits(tally(&calls));
        let kinds = ["accept4", "close", "getsockopt", "read", "write"];
        assert_eq!(counts, BTreeMap::from(kinds.map(|kind| (kind, ROUNDS))), "{arch}: {calls:#?}");
    }
}
