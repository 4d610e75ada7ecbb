//! Files that are there by gzip alone, for clients that do not take that.

use std::sync::Arc;

use flyball_http::{Fields, Name, Request, Status};

use super::file_answers::FileAnswer;
use super::{Body, Sites};
use crate::decoded_source::DecodedSource;
use crate::entry::{Content, FileEntry};

/// When a client may try again for which nothing was decoded, in seconds.
const RETRY_AFTER_S: u32 = 5;

impl Sites {
    /// The answer with the body of an entry that is decoded while it is sent, or 503 when as many
    /// are being decoded as may.
    pub(super) fn decoded_answer<'a>(
        &self,
        site: usize,
        entry: &'a FileEntry,
        request: &Request<'_>,
        fields: &'a mut Fields,
    ) -> FileAnswer<'a> {
        if let Some(source) = self.begin_decoding(entry) {
            let (status, body) = (Status::OK, Body::Stream { len: None });
            let (fields, produced) = (entry.head().into(), Box::new(source));
            return FileAnswer { status, fields, body, produced: Some(produced) };
        }
        let status = Status::SERVICE_UNAVAILABLE;
        fields.clear();
        fields.add_shown(Name::RetryAfter, RETRY_AFTER_S);
        let body = self.sites[site].add_refusal(request, status, fields);
        FileAnswer { status, fields: (&*fields).into(), body, produced: None }
    }

    fn begin_decoding(&self, entry: &FileEntry) -> Option<DecodedSource> {
        let Content::Open(file) = &entry.content else { return None };
        Some(DecodedSource::new(Arc::clone(file), self.load.decode()?))
    }
}
