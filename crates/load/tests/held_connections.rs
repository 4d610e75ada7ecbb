//! Ten thousand connections: alone in their process, whose memory is measured.

#[path = "generator/common.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use common::options;
use flyball_load::job::{Job, Load};
use flyball_load::observe::Live;
use flyball_sys::net;
use flyball_testkit::wait::{DEADLINE, until};

/// Bytes of the process that one connection may take while it waits for its first reply.
const CONNECTION_BYTES_MAX: u64 = 1536;

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
#[ignore = "full tier"]
fn ten_thousand_connections_are_held_by_one_thread() {
    // The kernel alone accepts them: no answer is needed.
    let count = std::env::var("FLYBALL_LOAD_CONNECTIONS").ok().and_then(|n| n.parse().ok());
    let count: u32 = count.unwrap_or(10_500);
    let needed = count as usize + 64;
    if flyball_sys::process::raise_descriptor_limit_to(needed) < needed {
        flyball_testkit::skip("descriptors");
        return;
    }
    let listeners: Vec<_> = (0..count.div_ceil(4000))
        .map(|_| {
            let listener = net::bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
            net::listen(&listener, 4096, &net::ListenOptions::default()).unwrap();
            listener
        })
        .collect();
    let mut options = options(net::local_address(&listeners[0]).unwrap(), Load::Connections(1), 0);
    options.load = Load::Connections(count);
    options.duration = DEADLINE;
    options.timeout = DEADLINE;
    let mut job = Job::prepare(&options).unwrap();
    job.plan.addresses = listeners.iter().map(|l| net::local_address(l).unwrap()).collect();
    let (before, held) = (resident_bytes(), AtomicU64::new(0));
    let (live, stop) = (Arc::new(Live::default()), AtomicBool::new(false));
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            until(DEADLINE, || (live.glance().open >= u64::from(count)).then_some(()));
            held.store(resident_bytes(), Relaxed);
            stop.store(true, Relaxed);
        });
        job.run(&live, &stop).unwrap()
    });
    let each = held.load(Relaxed).saturating_sub(before) / u64::from(count);
    println!("{each} bytes of this process for each of {count} connections");
    assert!(each <= CONNECTION_BYTES_MAX, "{each} bytes for each connection");
    let tally = &report.tally;
    assert_eq!(tally.open_max, u64::from(count), "{:?}", tally.errors);
    assert_eq!((tally.sent, tally.error_count()), (u64::from(count), 0), "{:?}", tally.errors);
}
