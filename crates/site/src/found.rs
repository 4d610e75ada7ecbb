//! A file that was found for a path.

use std::sync::Arc;

use bytes::Bytes;
use flyball_sys::descriptors::Descriptor;
use flyball_sys::file::Stamp;

use crate::entry::Content;
use crate::routes::Depends;
use crate::served::Served;

/// An open regular file and the name, relative to the root, that led to it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) file: Arc<Descriptor>,
    pub(crate) stamp: Stamp,
    pub(crate) name: Vec<u8>,
    /// The name that was looked for, where a neighbour in a language or a format answers for it.
    pub(crate) resource: Option<Box<[u8]>>,
    /// The number of that root.
    pub(crate) root: u16,
    /// On what of the request it depends that this file was found.
    pub(crate) depends: Depends,
    pub(crate) served: Served,
    /// The body as it is, once it was read to be coded.
    pub(crate) body: Bytes,
}

impl Found {
    /// The name that was looked for.
    pub(crate) fn resource(&self) -> &[u8] {
        self.resource.as_deref().unwrap_or(&self.name)
    }

    /// True when the whole body is coded before the answer is made.
    pub(crate) fn is_coded_at_once(&self) -> bool {
        matches!(self.served, Served::Here(_))
    }

    /// The file of which its body is coded here, to be sent as it is.
    pub(crate) fn plain(self) -> Found {
        debug_assert!(!matches!(self.served, Served::Beforehand(_)));
        Found { served: Served::Plain, ..self }
    }

    /// The body as it is, if it is in memory.
    pub(crate) fn plain_body<'a>(&'a self, content: &'a Content) -> Option<&'a Bytes> {
        match (self.served, content) {
            (Served::Here(_), _) => Some(&self.body),
            (Served::Plain, Content::Memory(body)) => Some(body),
            _ => None,
        }
    }
}
