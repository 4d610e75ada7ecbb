//! A site's own pages of refusals. They are read and coded when the server starts and stay in
//! memory, so that they are there when descriptors or memory are not.

use std::io;
use std::path::Path;

use bytes::Bytes;
use flyball_http::Status;
use flyball_http::coding::Coding;

use crate::compress::CodingPolicy;
use crate::mime::Types;
use crate::pages;

use super::opening;
use super::settings::RouteSettings;

/// The page of a status.
#[derive(Clone, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) body: Bytes,
    pub(crate) media_type: &'a str,
    /// The same in every coding on offer that makes it smaller.
    pub(crate) coded: &'a [(Coding, Bytes)],
}

/// The pages of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorPages {
    pages: Vec<OwnPage>,
}

#[derive(Clone, Debug)]
struct OwnPage {
    status: u16,
    body: Bytes,
    media_type: Box<str>,
    coded: Vec<(Coding, Bytes)>,
}

impl ErrorPages {
    /// The pages of these settings, as `read` finds them. One that cannot be read is what it was,
    /// if it was read before: then why is told. Blocks on the disk.
    ///
    /// # Errors
    /// The page that cannot be read, and why.
    pub(crate) fn read(
        settings: &RouteSettings,
        read: impl Fn(u16, &Path) -> io::Result<Vec<u8>>,
        (types, policy): (&Types, &CodingPolicy),
        (was, kept): (Option<&ErrorPages>, &mut Vec<String>),
    ) -> io::Result<ErrorPages> {
        let read = |status: u16, path: &Path| {
            let body = read(status, path)?;
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            let media_type: Box<str> = types.of(name).into();
            let coded = policy.code(&media_type, &body);
            Ok(OwnPage { status, body: body.into(), media_type, coded })
        };
        let mut pages = Vec::new();
        for (status, path) in &settings.error_pages {
            let before = || was?.own(*status).cloned();
            pages.push(opening::or_before(read(*status, path), before, kept)?);
        }
        Ok(ErrorPages { pages })
    }

    fn own(&self, status: u16) -> Option<&OwnPage> {
        self.pages.iter().find(|page| page.status == status)
    }

    /// The page of a status: the site's own, or the one that every site has, which is too short to
    /// be coded.
    pub(crate) fn of(&self, status: Status) -> Page<'_> {
        match self.own(status.code()) {
            Some(OwnPage { body, media_type, coded, .. }) => {
                Page { body: body.clone(), media_type, coded }
            }
            None => Page {
                body: Bytes::from_static(pages::page(status)),
                media_type: pages::TYPE,
                coded: &[],
            },
        }
    }
}
