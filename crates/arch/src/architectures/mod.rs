//! The architectures, one file each, to be read beside its paper.

pub mod amped;
pub mod mt;
pub mod n_copy;
pub mod sped;
pub mod symped;
pub mod uring;
