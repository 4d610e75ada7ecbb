//! Whose certificates clients show, as files say: read, and looked at again while the server runs.

use std::path::Path;

use flyball_arch::settings::Settings;
use flyball_site::{ClientFiles, SiteSettings};
use flyball_sys::secret_file::{self, Version};
use flyball_tls::ClientAuth;

use super::FILE_BYTES_MAX;

/// Authorities of clients, and lists of those that are revoked.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    pub(super) files: ClientFiles,
    pub(super) auth: ClientAuth,
    /// What messages about the authorities, and about the lists, begin with.
    written: [String; 2],
    /// The files that were looked at last, whether they could be used or not.
    versions: [Option<Version>; 2],
    /// What was said last of files that cannot be used.
    said: Option<String>,
    /// Whether it was said that a list is over.
    has_said_over: bool,
}

impl Clients {
    /// Reads what a site names; nothing where it asks for no certificates. `number` is that of a
    /// renewal. Blocks on the disk.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn read(
        site: &SiteSettings,
        settings: &Settings,
        number: usize,
    ) -> Result<Option<Clients>, String> {
        let files = &site.tls.clients;
        let Some(ca) = &files.ca else { return Ok(None) };
        let host = site.hosts.first().map_or("*", String::as_str);
        let of_all = &settings.tls.of_sites.clients;
        let written = |key: &'static str, is_of_all: bool| match is_of_all {
            true => settings.blame(key, ""),
            false => format!("site {host}: {key}: "),
        };
        let written = [
            written("tls.client-ca", of_all.ca == files.ca),
            written("tls.client-crl", of_all.crl == files.crl),
        ];
        let versions = versions(files);
        let auth = read(ca, files, &written)?.numbered(number);
        let files = files.clone();
        Ok(Some(Clients { files, auth, written, versions, said: None, has_said_over: false }))
    }

    /// What the operator should know at the start: a list is over.
    pub(super) fn warning(&mut self, now_s: u64) -> Option<String> {
        let why = self.over(&self.auth, now_s);
        self.has_said_over = why.is_some();
        why
    }

    /// Takes over what is there now, if it is another than at the last look, and says so; why it
    /// cannot be used, if that was not said yet. Blocks on the disk.
    pub(super) fn look(&mut self, now_s: u64) -> Option<Result<String, String>> {
        let versions = versions(&self.files);
        let is_there = self.files.crl.is_none() || versions[1].is_some();
        // A file that is gone for a moment is about to be replaced.
        if versions == self.versions || versions[0].is_none() || !is_there {
            return None;
        }
        // What is replaced while it is read is looked at again.
        self.versions = versions;
        let ca = self.files.ca.as_deref()?;
        let read = read(ca, &self.files, &self.written).and_then(|next| {
            let is_worse = next.lists_end_s() < self.auth.lists_end_s();
            match self.over(&next, now_s).filter(|_| is_worse) {
                Some(why) => Err(why),
                None => Ok(next.numbered(self.auth.number())),
            }
        });
        match read {
            Ok(next) => {
                (self.auth, self.said, self.has_said_over) = (next, None, false);
                let crl = self.files.crl.iter().map(|crl| format!(" with {}", crl.display()));
                let what = format!("{}{}", ca.display(), crl.collect::<String>());
                Some(Ok(format!("{what}, by which clients are let in, is in use")))
            }
            Err(why) => {
                let why = format!("what clients are let in by stays: {why}");
                (self.said.replace(why.clone()).as_ref() != Some(&why)).then_some(Err(why))
            }
        }
    }

    /// That a list in use is over, once.
    pub(super) fn look_at_time(&mut self, now_s: u64) -> Option<String> {
        if self.has_said_over { None } else { self.warning(now_s) }
    }

    fn over(&self, auth: &ClientAuth, now_s: u64) -> Option<String> {
        let end_s = auth.lists_end_s().filter(|end_s| *end_s < now_s)?;
        let days = (now_s - end_s) / 86_400;
        let path = self.files.crl.as_deref().unwrap_or(Path::new("")).display();
        Some(format!(
            "{}{path} holds a list whose time ended {days} days ago: clients whose certificates \
             are looked up in it are refused",
            self.written[1]
        ))
    }
}

/// Reads authorities and lists. Blocks on the disk.
fn read(ca: &Path, files: &ClientFiles, written: &[String; 2]) -> Result<ClientAuth, String> {
    let blame =
        |at: usize, path: &Path, why: String| format!("{}{} {why}", written[at], path.display());
    let read = |at: usize, path: &Path| {
        let read = secret_file::read(path, FILE_BYTES_MAX);
        read.map_err(|error| blame(at, path, format!("cannot be read: {error}")))
    };
    let roots = read(0, ca)?;
    let lists = files.crl.as_deref().map(|path| read(1, path)).transpose()?;
    let lists = lists.as_ref().map(|file| &*file.bytes);
    ClientAuth::from_pem(&roots.bytes, lists, !files.is_optional).map_err(|fault| {
        match files.crl.as_deref().filter(|_| fault.is_of_lists) {
            Some(crl) => blame(1, crl, fault.why),
            None => blame(0, ca, fault.why),
        }
    })
}

/// Which files the names lead to; `None` where there is none.
fn versions(files: &ClientFiles) -> [Option<Version>; 2] {
    [&files.ca, &files.crl].map(|path| path.as_deref().and_then(|path| Version::of(path).ok()))
}
