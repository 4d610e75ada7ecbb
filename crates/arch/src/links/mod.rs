//! Links to servers that answer: FastCGI and SCGI. A connection says what it wants of its link, and
//! the thread that drives it has the link.

pub(crate) mod link;
mod places;
mod shared;
mod watched;

pub(crate) use link::{Held, Moved, Pool, Unwatched};
pub use shared::Upstreams;
pub(crate) use watched::{LINK, Links, LinksOf};
