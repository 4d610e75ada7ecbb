//! Links to what answers: servers that speak FastCGI or SCGI, and CGI programs. A connection says
//! what it wants of its link, and the thread that drives it has the link.

pub(crate) mod blocking;
pub(crate) mod link;
mod operated;
mod places;
mod program;
mod shared;
mod users;
mod watched;

pub(crate) use blocking::Blocking;
pub(crate) use link::{Held, Link, Moved, Pool, Unwatched};
pub(crate) use operated::Operated;
pub use shared::Upstreams;
pub(crate) use watched::{LINK, Links, LinksOf};
