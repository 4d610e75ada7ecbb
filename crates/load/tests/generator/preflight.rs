//! What is said before a run. It raises the limit of descriptors, which disturbs no other test.

use crate::common::{options, rate};
use flyball_load::engine::Share;
use flyball_load::job::{Job, Load};
use flyball_sys::process;

/// More than any machine lets a process hold.
const TOO_MANY: usize = 1 << 21;

#[test]
fn what_descriptors_cannot_do_is_said_before_the_run_and_each_machine_has_its_share() {
    let limit = process::raise_descriptor_limit_to(TOO_MANY);
    if limit >= TOO_MANY {
        flyball_testkit::skip("a limit of descriptors");
        return;
    }
    let mut options = options("127.0.0.1:9".parse().unwrap(), rate("1"), 1_000);
    options.behaviour.sources = (2..200).map(|n| [127, 0, 0, n].into()).collect();
    options.load = Load::Connections(limit as u32);
    let why = Job::prepare(&options).unwrap_err();
    assert!(why.contains(&format!("connections need {} descriptors", limit + 33)), "{why}");
    Job::prepare_share(&options, Share { index: 1, of: 4 }).expect("a quarter is few enough");
    // If nothing is answered, all that arrives waits: what only may come is an error if asked for.
    options.load = rate(&format!("{}", limit * 2));
    let told = Job::prepare(&options).unwrap().notes().join("; ");
    assert!(told.contains(&format!("this process may hold {limit} descriptors")), "{told}");
    options.strict = true;
    assert_eq!(Job::prepare(&options).unwrap_err(), told);
    Job::prepare_share(&options, Share { index: 1, of: 4 }).expect("nor is it then");
}
