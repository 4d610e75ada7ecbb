//! The calls by which architectures receive, send, wait and read the time. The crate's own tests
//! can put a simulated kernel below a thread, and run whole architectures on it.

#[cfg(test)]
pub(crate) use crate::simulation::kernel::{clock, file, net, readiness, signal, uring};
#[cfg(not(test))]
pub(crate) use flyball_sys::{clock, file, net, readiness, signal, uring};
