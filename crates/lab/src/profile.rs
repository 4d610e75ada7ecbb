//! Where a server spends its time: system calls by category, and samples of its stack.

pub(crate) mod calls;
pub(crate) mod samples;

pub use calls::{CATEGORIES, Category, Count, category, title};
pub use samples::Samples;
