//! Whose certificates clients show, as files say: read, and looked at again while the server runs.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flyball_arch::settings::Settings;
use flyball_site::{ClientFiles, SiteSettings};
use flyball_sys::secret_file;
use flyball_tls::{Certificate, ClientAuth};

use super::FILE_BYTES_MAX;
use super::watched::{Look, Moment, Watched};
use crate::words::lasting;

/// Authorities of clients, and lists of those that are revoked.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    pub(super) files: ClientFiles,
    pub(super) auth: ClientAuth,
    /// What messages about the authorities, and about the lists, begin with.
    written: [String; 2],
    watched: Watched,
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
        let written = |key: &'static str, of_site: &String| match of_site.is_empty() {
            true => settings.blame(key, ""),
            false => of_site.clone(),
        };
        let [of_ca, of_crl] = &site.tls.clients_written;
        let written = [written("tls.client-ca", of_ca), written("tls.client-crl", of_crl)];
        let watched = Watched::new([Some(&**ca), files.crl.as_deref()].into_iter().flatten());
        let auth = read(ca, files, &written)?.numbered(number);
        let files = files.clone();
        Ok(Some(Clients { files, auth, written, watched, has_said_over: false }))
    }

    /// The lists in use, and where they were read; none without such a file.
    pub(super) fn kept(&self) -> Option<(PathBuf, ClientAuth)> {
        Some((self.files.crl.clone()?, self.auth.clone()))
    }

    /// Lets no list be older than that of a server whose place is taken; what there is to say of
    /// those that were.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn keep_newer_of(
        &mut self,
        before: &HashMap<PathBuf, ClientAuth>,
    ) -> Result<Vec<String>, String> {
        let before = self.files.crl.as_ref().and_then(|crl| before.get(crl));
        let Some(before) = before else { return Ok(Vec::new()) };
        let (auth, told) = self.not_older(self.auth.clone(), before)?;
        self.auth = auth;
        Ok(told)
    }

    /// What the files hold, with the lists that are in use in the place of older ones; what there
    /// is to say of those.
    fn not_older(
        &self,
        read: ClientAuth,
        in_use: &ClientAuth,
    ) -> Result<(ClientAuth, Vec<String>), String> {
        let crl = shown(&self.files.crl);
        let merged = read.with_newer_lists_of(in_use);
        let (auth, older) =
            merged.map_err(|fault| format!("{}{crl} {}", self.written[1], fault.why))?;
        let told = older.into_iter().map(|issuer| {
            format!(
                "{}{crl} holds a list of {issuer} that is older than the one in use, which stays \
                 until the server is started again",
                self.written[1]
            )
        });
        Ok((auth, told.collect()))
    }

    /// What the operator should know of authorities that issue nothing, and of lists of others.
    pub(super) fn notes(&self) -> Vec<String> {
        let [ca, crl] = [&self.files.ca, &self.files.crl].map(shown);
        let leaves = self.auth.leaves().into_iter().map(|leaf| {
            let Certificate { subject, issuer, .. } = leaf;
            format!(
                "{}{ca} holds the certificate of {subject}, which is no authority: name those \
                 who issue the certificates of clients, such as {issuer}, who has issued this one",
                self.written[0]
            )
        });
        let lists = self.auth.lists_of_others().into_iter().map(|issuer| {
            format!(
                "{}{crl} holds a list of {issuer}, which is no authority of {ca}; clients whose \
                 issuer has no list there are refused",
                self.written[1]
            )
        });
        leaves.chain(lists).collect()
    }

    /// What the operator should know at the start: a list is over.
    pub(super) fn warning(&mut self, now_s: u64) -> Option<String> {
        let why = self.over(&self.auth, now_s);
        self.has_said_over = why.is_some();
        why
    }

    /// Takes over what is there now, if it is another than at the last look, and says so; why it
    /// cannot be used, if that was not said yet. Blocks on the disk.
    pub(super) fn look(&mut self, at: Moment) -> Option<Result<Vec<String>, String>> {
        let why = match self.watched.look(at) {
            Look::Same => return None,
            Look::Gone(number, why) => format!("{}{why}", self.written[number]),
            Look::Changed => match self.next(at.s) {
                Ok((next, older)) if older.is_empty() || next != self.auth => {
                    self.auth = next;
                    self.has_said_over = false;
                    self.watched.succeeded();
                    return Some(Ok([self.notes(), older].concat()));
                }
                Ok((_, older)) => older.join("; "),
                Err(why) => why,
            },
        };
        self.watched.say(format!("what clients are let in by stays: {why}")).map(Err)
    }

    /// What the files hold now, unless a list of it is over and none in use is; and what there is
    /// to say of lists that are older than those in use.
    fn next(&self, now_s: u64) -> Result<(ClientAuth, Vec<String>), String> {
        let ca = self.files.ca.as_deref().unwrap_or(Path::new(""));
        let next = read(ca, &self.files, &self.written)?.numbered(self.auth.number());
        let (next, older) = self.not_older(next, &self.auth)?;
        let is_worse = next.lists_end_s() < self.auth.lists_end_s();
        match self.over(&next, now_s).filter(|_| is_worse) {
            Some(why) => Err(why),
            None => Ok((next, older)),
        }
    }

    /// What is said of the files when they are in use.
    pub(super) fn news(&self) -> String {
        let [ca, crl] = [&self.files.ca, &self.files.crl].map(shown);
        let with = if crl.is_empty() { "" } else { " with " };
        format!("{ca}{with}{crl}, by which clients are let in, is in use")
    }

    /// That a list in use is over, once.
    pub(super) fn look_at_time(&mut self, now_s: u64) -> Option<String> {
        if self.has_said_over { None } else { self.warning(now_s) }
    }

    fn over(&self, auth: &ClientAuth, now_s: u64) -> Option<String> {
        let end_s = auth.lists_end_s().filter(|end_s| *end_s < now_s)?;
        Some(format!(
            "{}{} holds a list whose time ended {} ago: clients whose certificates are looked up \
             in it are refused",
            self.written[1],
            shown(&self.files.crl),
            lasting(now_s - end_s)
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

/// A path in a message; nothing without one.
fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
}
