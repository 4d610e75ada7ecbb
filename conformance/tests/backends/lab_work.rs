//! Requests that take a known time, by which overload is measured: in the loop that calls them, and
//! where an architecture does what may block.

use crate::common_programs::on_every_architecture;
use crate::modules::{ask, get, start};

const WORK: &str = "[[site.module]]\npath = \"/work\"\nname = \"lab-work\"\n\
                    options = { burn-us = \"1000\" }\n\
                    [[site.module]]\npath = \"/apart\"\nname = \"lab-work\"\nblocking = true\n";

fn a_request_takes_the_time_that_is_set_or_asked_for(architecture: &str) {
    let Some(modules) = start(architecture, WORK) else { return };
    let mut client = modules.server.connect();
    let worked = (200, "worked\n".to_owned());
    for path in ["/work", "/work?burn-us=2000", "/work?sleep-us=2000&burn-us=0", "/apart"] {
        assert_eq!(ask(&mut client, get(path)), worked, "{path}");
    }
    // It is longer than the server's clock could be wrong by.
    let begun = std::time::Instant::now();
    assert_eq!(ask(&mut client, get("/apart?burn-us=30000&sleep-us=30000")), worked);
    assert!(begun.elapsed() >= std::time::Duration::from_millis(60));
    let (status, why) = ask(&mut client, get("/work?burn-us=10000001"));
    assert_eq!((status, &*why), (400, "burn-us is at most 10000000, in microseconds\n"));
}

on_every_architecture! { [a_request_takes_the_time_that_is_set_or_asked_for] }
