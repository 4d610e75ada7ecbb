//! Where certificates are read, which of them are in use, and what the operator is told of each.

use std::path::Path;

use flyball_site::{CertificateFiles, SiteSettings};
use flyball_sys::secret_file::{self, Version};
use flyball_tls::{Certificate, Pair};

use super::internal;

/// Longest file of a chain, a key, authorities or lists, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;

/// Where a certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Files that the operator names.
    Files,
    /// The storage of the agent that gets certificates.
    Acme,
    /// The authority of this machine.
    Internal,
}

impl Source {
    /// As it is told.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Files => "file",
            Source::Acme => "acme",
            Source::Internal => "internal",
        }
    }
}

/// A certificate, as it is told.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// Its names and addresses; those that it is to have, where it is still to come.
    pub(crate) names: Vec<String>,
    /// Where it comes from.
    pub(crate) source: Source,
    /// Who issued it; empty where it is still to come.
    pub(crate) issuer: String,
    /// The kind of its key; empty where it is still to come.
    pub(crate) key: &'static str,
    /// Its number, by which those of one name are told apart; empty where it is still to come.
    pub(crate) serial: String,
    /// The last second in which it holds, since 1970; `None` where it is still to come.
    pub(crate) not_after_s: Option<u64>,
    /// When it is renewed, if that is known, in seconds since 1970.
    pub(crate) renews_at_s: Option<u64>,
    /// What failed last, if nothing has succeeded since.
    pub(crate) error: Option<String>,
}

impl Told {
    /// The first of its names.
    pub(crate) fn name(&self) -> &str {
        self.names.first().map(String::as_str).unwrap_or_default()
    }

    /// For how many seconds it holds; below zero since it has expired.
    pub(crate) fn holds_s(&self, now_s: u64) -> Option<i64> {
        let not_after_s = self.not_after_s?.cast_signed();
        Some(not_after_s.saturating_sub(now_s.cast_signed()))
    }
}

/// All names of a certificate: hosts, then addresses; its subject, if there are none.
fn names_of(certificate: &Certificate) -> Vec<String> {
    let addresses = certificate.addresses.iter().map(ToString::to_string);
    let names: Vec<String> = certificate.names.iter().cloned().chain(addresses).collect();
    if names.is_empty() { vec![certificate.subject.clone()] } else { names }
}

/// Where a pair is read, and which files these were.
#[derive(Clone, Debug)]
pub(super) struct Files {
    names: CertificateFiles,
    pub(super) source: Source,
    /// The names that the site answers to.
    hosts: Vec<String>,
    /// Those that were looked at last, whether they could be used or not.
    versions: [Option<Version>; 2],
    /// The certificate in use; none where it is still to come.
    in_use: Option<Certificate>,
    /// The kind of its key.
    key: &'static str,
    /// What was said last of files that cannot be used.
    said: Option<String>,
}

impl Files {
    /// Files of which `pair` was read, for a site of these hosts.
    pub(super) fn new(
        names: &CertificateFiles,
        source: Source,
        hosts: &[String],
        pair: Option<&Pair>,
    ) -> Files {
        let in_use = pair.map(|pair| pair.certificate().clone());
        let (names, hosts, versions) = (names.clone(), hosts.to_vec(), versions(names));
        let key = pair.map_or("", Pair::key_kind);
        Files { names, source, hosts, versions, in_use, key, said: None }
    }

    /// What the authority of this machine, which lies in this directory, issues for a site.
    ///
    /// # Errors
    /// As [`Files::issue`].
    pub(super) fn issued(
        site: &SiteSettings,
        directory: &Path,
        now_s: u64,
    ) -> Result<(Files, Pair), String> {
        let (names, hosts) = (CertificateFiles::default(), internal::names_of(site));
        let mut files = Files::new(&names, Source::Internal, &hosts, None);
        let pair = files.issue(directory, now_s).unwrap_or_else(|| Err("nothing is due".into()))?;
        Ok((files, pair))
    }

    /// Has the authority issue another certificate, if it is time for it.
    ///
    /// # Errors
    /// Why it cannot, if that was not said yet.
    pub(super) fn issue(&mut self, directory: &Path, now_s: u64) -> Option<Result<Pair, String>> {
        let ends_s = self.in_use.as_ref().map_or(0, |in_use| in_use.not_after_s);
        if ends_s > now_s + internal::RENEWED_S {
            return None;
        }
        let authority = internal::open(directory, now_s);
        match authority.and_then(|authority| authority.issue(&self.hosts, now_s)) {
            Ok(pair) => {
                (self.in_use, self.said) = (Some(pair.certificate().clone()), None);
                self.key = pair.key_kind();
                Some(Ok(pair))
            }
            Err(why) => (self.said.replace(why.clone()).as_ref() != Some(&why)).then_some(Err(why)),
        }
    }

    pub(super) fn blame(&self, why: &str) -> String {
        format!("{}{} {why}", self.names.written, self.names.chain.display())
    }

    /// The certificate in use, for a message.
    pub(super) fn shown(&self) -> String {
        let path = self.names.chain.display();
        match self.source {
            Source::Files => format!("the renewed certificate {path}"),
            Source::Acme => format!("the certificate {path}"),
            Source::Internal => format!("the next certificate for {}", self.hosts.join(", ")),
        }
    }

    /// What is told of it.
    pub(super) fn told(&self) -> Told {
        let in_use = self.in_use.as_ref();
        Told {
            names: in_use.map_or_else(|| self.hosts.clone(), names_of),
            source: self.source,
            issuer: in_use.map(|one| one.issuer.clone()).unwrap_or_default(),
            key: self.key,
            serial: in_use.map(|one| one.serial.to_ascii_uppercase()).unwrap_or_default(),
            not_after_s: in_use.map(|one| one.not_after_s),
            renews_at_s: in_use
                .filter(|_| self.source == Source::Internal)
                .map(|one| one.not_after_s.saturating_sub(internal::RENEWED_S)),
            error: self.said.clone(),
        }
    }

    /// Whether this is the certificate of a site whose first host is this.
    pub(super) fn is_of(&self, host: &str) -> bool {
        self.hosts.first().is_some_and(|first| first == host)
    }

    /// The pair that is there now, if it is another than at the last look; why it cannot be used,
    /// if that was not said yet.
    pub(super) fn look(&mut self, now_s: u64) -> Option<Result<Pair, String>> {
        let versions = versions(&self.names);
        // A file that is gone for a moment is about to be replaced.
        if versions == self.versions || versions.contains(&None) {
            return None;
        }
        let read = read_pair(&self.names).and_then(|(pair, _)| {
            let before_s = self.in_use.as_ref().map_or(0, |in_use| in_use.not_after_s);
            let is_worse = pair.certificate().not_after_s < now_s.min(before_s);
            match expiry(&pair, now_s).filter(|_| is_worse) {
                Some(why) => Err(self.blame(&why)),
                None => Ok(pair),
            }
        });
        // One that was replaced while it was read is looked at again.
        self.versions = versions;
        match read {
            Ok(pair) => {
                (self.in_use, self.said) = (Some(pair.certificate().clone()), None);
                self.key = pair.key_kind();
                Some(Ok(pair))
            }
            Err(why) => {
                let why = match self.in_use {
                    Some(_) => format!("the certificate in use stays: {why}"),
                    None => why,
                };
                (self.said.replace(why.clone()).as_ref() != Some(&why)).then_some(Err(why))
            }
        }
    }
}

/// Which files the names lead to; `None` where there is none.
fn versions(names: &CertificateFiles) -> [Option<Version>; 2] {
    [&names.chain, &names.key].map(|path| Version::of(path).ok())
}

/// Reads a pair, and what the operator should know of its files. Blocks on the disk.
///
/// # Errors
/// Which file cannot be used, and why.
pub(super) fn read_pair(files: &CertificateFiles) -> Result<(Pair, Option<String>), String> {
    let CertificateFiles { chain, key, written } = files;
    let blame = |path: &Path, why: String| format!("{written}{} {why}", path.display());
    let read = |path: &Path| {
        secret_file::read(path, FILE_BYTES_MAX)
            .map_err(|error| blame(path, format!("cannot be read: {error}")))
    };
    let secret = read(key)?;
    if secret.is_open_to_all() {
        let mode = secret.mode;
        let why = format!("holds a key and is open to all users (mode {mode:04o}): chmod 600");
        return Err(blame(key, why));
    }
    let warning = secret.is_open_to_group().then(|| {
        blame(key, format!("holds a key and is open to its group (mode {:04o})", secret.mode))
    });
    let read_chain = if chain == key { None } else { Some(read(chain)?) };
    let certificates = read_chain.as_ref().map_or(&secret.bytes, |file| &file.bytes);
    let pair = Pair::from_pem(certificates, &secret.bytes).map_err(|fault| {
        let path = if fault.is_of_chain() { chain } else { key };
        blame(path, fault.to_string())
    })?;
    Ok((pair, warning))
}

/// What is to be said of the time in which a certificate holds.
pub(super) fn expiry(pair: &Pair, now_s: u64) -> Option<String> {
    let certificate = pair.certificate();
    if certificate.not_after_s < now_s {
        let days = (now_s - certificate.not_after_s) / 86_400;
        return Some(format!("holds a certificate that expired {days} days ago"));
    }
    (certificate.not_before_s > now_s).then(|| "holds a certificate of the future".to_owned())
}
