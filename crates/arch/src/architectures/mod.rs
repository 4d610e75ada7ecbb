//! The architectures, one directory each. Its `mod.rs` is a page to be read beside its
//! paper; the other files are its own parts.

pub mod amped;
pub mod knot_a;
pub mod knot_c;
pub mod mp;
pub mod mt;
pub mod n_copy;
pub mod shared_symped;
pub mod sped;
pub mod symped;
pub mod thread_per_connection;
pub mod tux;
pub mod uring;
pub mod watpipe;

/// The settings that an architecture with helpers honours.
const HELPER_SETTINGS: &[&str] =
    &["amped.helpers", "amped.helper-kind", "amped.reserve", "amped.idle", "amped.residency"];
