//! Modules that are part of the server.

mod digest;
mod hello;
#[cfg(feature = "lab")]
mod lab_work;
mod specweb99;

use std::sync::atomic::AtomicU64;

use flyball_module::abi::COUNTERS_MAX;
use flyball_module::{Module, Open, Setup};
use flyball_sys::shared::SharedCounters;

/// Makes an instance, or says why not.
pub(super) type Opener = fn(&mut dyn Setup) -> Result<Box<dyn Module>, String>;

/// A module that is part of the server.
#[derive(Debug)]
pub struct Builtin {
    /// The name by which a configuration calls it.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    pub(super) blocks: bool,
    pub(super) open: Opener,
}

/// Every one. To add one, write its file beside this one and its row here.
pub const BUILTINS: &[Builtin] = &[
    row::<digest::Digest>("digest", "answers with the length and the CRC-32 of the request body"),
    row::<hello::Hello>("hello", "says what its option `text` says"),
    #[cfg(feature = "lab")]
    row::<lab_work::LabWork>("lab-work", "takes a known time, of the processor or asleep"),
    row::<specweb99::SpecWeb99>("specweb99", "answers the dynamic requests of SPECweb99"),
];

const fn row<M: Open>(name: &'static str, doc: &'static str) -> Builtin {
    Builtin { name, doc, blocks: M::BLOCKS, open: open::<M> }
}

fn open<M: Open>(setup: &mut dyn Setup) -> Result<Box<dyn Module>, String> {
    Ok(Box::new(M::open(setup)?))
}

/// What the server tells a module that is made.
pub(super) struct HostSetup {
    pub(super) options: Vec<(String, String)>,
}

impl Setup for HostSetup {
    fn options(&self) -> &[(String, String)] {
        &self.options
    }

    fn counters(&mut self, count: usize) -> Result<&'static [AtomicU64], String> {
        if count > COUNTERS_MAX {
            return Err(format!("a module may have at most {COUNTERS_MAX} counters"));
        }
        let counters = SharedCounters::new(count).map_err(|error| error.to_string())?;
        // They stay for good: requests that are under way after a reload still count.
        Ok(Box::leak(Box::new(counters)).all())
    }
}
