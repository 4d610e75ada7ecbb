//! What is observed: counts and distributions, from one thread to a report.

mod csv;
mod exchange;
mod handshakes;
mod hdr_log;
mod histogram;
mod json;
mod kind;
mod live;
mod qos;
mod report;
mod series;
mod tally;
mod text;
mod threshold;
mod tries;

pub use csv::{CSV_HEADER, csv};
pub use exchange::{tally_from_json, tally_to_json};
pub use handshakes::Handshakes;
pub use hdr_log::hdr_log;
pub use histogram::Times;
pub use json::{json, pretty};
pub use kind::{KINDS, Kind};
pub(crate) use live::Published;
pub use live::{Glance, Live};
pub use qos::Qos;
pub use report::{Asked, BUSY_SHARE_MAX, LATE_SHARE_MAX, Report};
pub(crate) use series::Series;
pub use series::{Interval, merged};
pub use tally::{ClassTally, LATE_NS, Tally, Window};
pub use text::{short, text};
pub use threshold::Threshold;
pub use tries::{ENDS, End, SYN_RETRY_NS, Tries};
