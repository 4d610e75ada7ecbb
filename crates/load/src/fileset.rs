//! Sets of files that a server is measured with: made from a seed, each telling its own name and
//! size, so that every byte of a reply can be checked without the file at hand.
//!
//! A set is a directory with a manifest of how it was made. The generator reads the manifest and
//! knows the files, how often each is asked for, and what their bytes are.

mod content;
mod kinds;
mod mixes;
mod write;

pub use content::FileContent;
pub use kinds::{
    File, Kind, Manifest, Parameters, directories_for_connections, directories_for_rate,
};
pub use mixes::Mix;
pub use write::{make, make_of_log, open};

/// The name of the manifest in the directory of a set: hidden, so that no server serves it.
pub const MANIFEST: &str = ".fileset.json";
