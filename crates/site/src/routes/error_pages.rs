//! A site's own pages of refusals. They are read when the server starts and stay in memory, so that
//! they are there when descriptors or memory are not.

use std::io;

use bytes::Bytes;
use flyball_http::Status;
use flyball_sys::file;

use crate::mime::Types;
use crate::pages;

use super::ERROR_PAGE_BYTES_MAX;
use super::settings::RouteSettings;

/// The page of a status.
#[derive(Clone, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) body: Bytes,
    pub(crate) media_type: &'a str,
}

/// The pages of a site.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorPages {
    pages: Vec<(u16, Bytes, Box<str>)>,
}

impl ErrorPages {
    /// Reads the pages of these settings. Blocks on the disk.
    ///
    /// # Errors
    /// The page that cannot be read or is too long, and why.
    pub(crate) fn read(routes: &RouteSettings, types: &Types) -> io::Result<ErrorPages> {
        let mut pages = Vec::new();
        for (status, path) in &routes.error_pages {
            let body = file::read_whole(path, ERROR_PAGE_BYTES_MAX)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            pages.push((*status, body.into(), types.of(name).into()));
        }
        Ok(ErrorPages { pages })
    }

    /// The page of a status: the site's own, or the one that every site has.
    pub(crate) fn of(&self, status: Status) -> Page<'_> {
        match self.pages.iter().find(|(code, ..)| *code == status.code()) {
            Some((_, body, media_type)) => Page { body: body.clone(), media_type },
            None => Page { body: Bytes::from_static(pages::page(status)), media_type: pages::TYPE },
        }
    }
}
