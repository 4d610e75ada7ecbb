//! What is observed: counts and distributions, from one thread to a report.

mod histogram;
mod json;
mod kind;
mod live;
mod report;
mod tally;
mod text;

pub use histogram::Times;
pub use json::json;
pub use kind::{KINDS, Kind};
pub(crate) use live::Published;
pub use live::{Glance, Live};
pub use report::{Asked, BUSY_SHARE_MAX, LATE_SHARE_MAX, Report, SENT_SHARE_MIN};
pub use tally::{ClassTally, LATE_NS, Tally, Window};
pub use text::text;
