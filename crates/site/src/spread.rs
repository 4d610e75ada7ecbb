//! What is said of a site that stands for many.

use std::path::PathBuf;

/// Whether a site is one of many, or says what all of them have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// It is a site by itself.
    #[default]
    One,
    /// It stands for a site for each directory, and answers to no host itself.
    Each(HostRoots),
    /// It is one of those of the site of this number.
    Of(usize),
}

/// A root that stands for many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRoots {
    /// The directory whose directories are sites.
    pub base: PathBuf,
    /// What is served of each: a path beneath it, or nothing for all.
    pub beneath: PathBuf,
    /// Hosts that may be among them, as a site names its own.
    pub hosts: Vec<String>,
}
