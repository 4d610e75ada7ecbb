//! What the head of a file's answer says of it.

use flyball_http::{Fields, Name, Now, Request};

use super::Site;
use crate::entry::Head;
use crate::etag::EtagRule;
use crate::found::Found;
use crate::routes;

/// What a file's head says of it.
pub(super) struct Says {
    pub(super) media_type: String,
    coding: &'static str,
    etag: EtagRule,
    tag: String,
    language: String,
    shared: Fields,
    streams: bool,
    said_s: u64,
}

impl Says {
    pub(super) fn head(&self) -> Head<'_> {
        Head {
            media_type: &self.media_type,
            coding: self.coding,
            etag: self.etag,
            tag: &self.tag,
            language: &self.language,
            shared: self.shared.lines(),
            streams: self.streams,
            said_s: Some(self.said_s),
        }
    }
}

impl Site {
    /// The media type of a file and its language, whose extension comes behind the one of its type.
    pub(super) fn kind_of(&self, found: &Found) -> (String, &str) {
        let name = &found.name[..];
        let language = routes::language_in(self.routes.languages(), name).unwrap_or_default();
        let plain = match language {
            "" => name,
            tag => &name[..name.len() - tag.len() - 1],
        };
        let media_type = match self.routes.media_type(found.root, plain) {
            Some(said) => self.types.told(said),
            None => self.types.of(file_name(plain)),
        };
        (media_type.into_owned(), language)
    }

    /// What a file's head says of it.
    pub(super) fn says(&self, request: &Request<'_>, found: &Found, now: &Now) -> Says {
        let (media_type, language) = self.kind_of(found);
        let mut shared = Fields::default();
        let on = [
            (found.depends.image, "Accept"),
            (self.varies(found, &media_type), "Accept-Encoding"),
            (found.depends.language, "Accept-Language"),
        ];
        let on: Vec<&str> = on.iter().filter(|(depends, _)| *depends).map(|(_, n)| *n).collect();
        if !on.is_empty() {
            shared.add(Name::Vary, on.join(", "));
        }
        let way = self.settings.routes.files.cache_control;
        if let Some(value) = routes::cache_control(way, &media_type) {
            shared.add(Name::CacheControl, value);
        }
        self.amend(request, &media_type, false, &mut shared);
        let (coding, tag) = self.coding_of(found);
        let etag = self.settings.routes.files.etag.of(&found.stamp, self.finds_young(found, now));
        let streams = found.served.streams();
        let (language, said_s) = (language.to_owned(), now.unix());
        Says { media_type, coding, etag, tag, language, shared, streams, said_s }
    }

    /// Whether a file is too young for the tag that it has later.
    pub(super) fn finds_young(&self, found: &Found, now: &Now) -> bool {
        self.settings.routes.files.etag.finds_young(&found.stamp, now.unix_ms())
    }
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}
