//! A client that is out of descriptors: alone in its process, whose limit it lowers.

#[path = "generator/common.rs"]
mod common;

use std::io::Read;

use common::{options, rate, server};
use flyball_load::job::Job;
use flyball_load::observe::Kind;
use flyball_sys::process;

#[test]
fn a_client_without_descriptors_says_that_it_was_the_limit() {
    let serve = |_, mut stream: std::net::TcpStream| {
        let _ = stream.read_to_end(&mut Vec::new());
    };
    let mut options = options(server(serve), rate("500"), 200);
    options.timeout = std::time::Duration::from_millis(500);
    let job = Job::prepare(&options).expect("they were not out before");
    // The server, which is in this process, has none left to accept with either.
    process::limit_descriptors(40).expect("a lower limit is allowed");
    let report = job.run(&Default::default(), &false.into()).expect("it starts");
    let tally = &report.tally;
    assert!(tally.errors_of(Kind::NoDescriptor) > 50, "{:?}", tally.errors);
    assert_eq!(tally.error_count(), 100, "{:?}", tally.errors);
    assert!(!report.is_valid());
    let limits = report.client_limits().join("; ");
    assert!(limits.contains("no_descriptor: raise the limit of descriptors"), "{limits}");
}
