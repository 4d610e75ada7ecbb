//! What may go wrong on the way to a file: it changes while it is sent, its disk is slow or fails,
//! its name leads elsewhere, and a password is asked for it.

#![forbid(unsafe_code)]

#[path = "../common_programs/mod.rs"]
mod common_programs;

mod changing_files;
mod failing_disk;
mod path_safety;
mod slow_disk;
mod slow_passwords;
