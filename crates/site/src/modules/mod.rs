//! Modules: answers that are made in the server's own process (S1, section 3).
//!
//! An answer that is complete after one call costs no more than a file of the caches:
//! [`Service::lookup`](crate::Service::lookup) calls the module and takes what it wrote from a
//! buffer that is used again. What takes longer is a [`Responder`](crate::Responder).

mod builtin;
mod draft;
mod mounted;
mod settings;
mod turn;

pub use builtin::{BUILTINS, Builtin};
pub use flyball_module::OnPanic;
pub use settings::{Load, ModuleSettings, Takes};

pub(crate) use draft::{Draft, FileWish};
pub(crate) use mounted::{Modules, Mounted, Place};
pub(crate) use turn::{BodyQueue, Called, Caller};
