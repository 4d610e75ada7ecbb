//! Modules that answer requests within the server (S1, section 3): the trait that a module
//! implements, and the C ABI by which the same module is loaded from a shared object.
//!
//! An author implements [`Module`] and [`Open`]. Linked into the server that is all; in a crate of
//! type `cdylib`, [`export!`] makes what the server looks for. A module in another language
//! includes `flyball_module.h`, which [`abi`] is in Rust.
//!
//! One instance answers all requests of a process, from several threads at once where the
//! architecture has them: that is why a module is `Sync`. It must not block unless it says so by
//! [`Open::BLOCKS`], or the setting `blocking` does: it is then called where the architecture does
//! work that may wait for the disk.

#![deny(clippy::undocumented_unsafe_blocks)]
#![allow(unsafe_code)]

pub mod abi;
mod exchange;
mod export;
mod library;
mod module;

pub use exchange::{Exchange, Refused};
pub use export::glue;
pub use library::{Library, OnPanic};
pub use module::{Module, Open, Pending, Setup, Turn, Wake};
