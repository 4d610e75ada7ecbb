//! What comes of the work behind an answer.

use std::io;
use std::sync::Arc;

use flyball_http::Status;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::{Failure, failure};

use crate::access::Verification;
use crate::compress::Compression;
use crate::entry::Content;
use crate::found::Found;
use crate::listing::Gather;
use crate::routes::Place;

/// What a plan found.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The path names this regular file.
    File(Found),
    /// The path names a directory but does not end in a slash.
    NeedsSlash,
    /// The path names a directory without an index, at this place.
    Directory(Arc<Descriptor>, Place),
    /// The path names nothing, and a backend answers for that.
    FallsBack,
    /// The path names nothing, and a rule leads on then.
    LedOn,
    /// There is nothing to serve.
    Missing(Status),
    /// The file's whole body, unchanged between two looks at the file.
    Loaded(Found, Vec<u8>),
    /// Nothing is being written any more that had begun when the file was looked at.
    Settled(Found),
    /// The file changed while it was read.
    Unstable(Found),
    /// The first names in a directory, or all.
    Listed(Box<Gather>),
    /// Files of settings were looked for in all directories of the path.
    Configured,
    /// The bytes are in memory now.
    Warm,
    /// What was to be worked out is.
    Computed,
    /// A password was looked at.
    Verified(Arc<Verification>),
    /// This is sent, which was coded beforehand, or no such file is there.
    Chosen(Found),
    /// The body was coded, if that was worth it.
    Compressed(Found, Arc<Compression>),
    /// The coded body is in a file, unless memory or descriptors are out.
    Kept(Found, Content),
}

/// The status that tells a client of a failed open, and nothing more. A link that leaves the root
/// looks like a name that is not there.
pub(crate) fn status_of(error: &io::Error) -> Status {
    match failure(error) {
        Failure::Denied => Status::FORBIDDEN,
        Failure::Exhausted => Status::SERVICE_UNAVAILABLE,
        Failure::Missing => Status::NOT_FOUND,
    }
}
