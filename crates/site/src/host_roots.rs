//! Directories that are sites: a root with `$host` in it, such as `/srv/$host/public`, stands for
//! one site for each directory of `/srv` whose name is that of a host. What is said of the site
//! holds for all of them; each has files, and entries of the caches, of its own.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use flyball_sys::subdirectories;

use crate::hosts::{Hosts, is_name};
use crate::settings::SiteSettings;
use crate::spread::{HostRoots, Spread};
use crate::tls_settings::{CertificateSource, TlsSettings};

/// Most sites of one server that are directories: each holds a descriptor open.
pub const HOST_ROOTS_MAX: usize = 10_000;

/// Names that a message tells of those that are no sites.
const NAMES_TOLD_MAX: usize = 3;

/// What stands in a root for the name of the host.
const HOST: &str = "$host";

/// The directories that are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Their names, each with its inode, in order.
    pub hosts: Vec<(String, u64)>,
    /// Names that are those of no host, in order.
    pub others: Vec<String>,
}

impl HostRoots {
    /// That of a root with `$host` in it, for these hosts; `None` for any other root.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn of(root: &Path, hosts: &[String]) -> Result<Option<HostRoots>, String> {
        let is_host = |name: &Path| name.as_os_str() == HOST;
        if !root.to_string_lossy().contains(HOST) {
            return Ok(None);
        }
        let above = root.ancestors().find(|path| path.file_name().is_some_and(|it| it == HOST));
        let base = above.and_then(Path::parent).unwrap_or(Path::new("/"));
        let beneath: PathBuf = root.components().skip(base.components().count() + 1).collect();
        let is_once = above.is_some()
            && !base.to_string_lossy().contains(HOST)
            && !beneath.components().any(|part| is_host(part.as_ref()))
            && !beneath.to_string_lossy().contains(HOST);
        match is_once {
            true => Ok(Some(HostRoots { base: base.into(), beneath, hosts: hosts.to_vec() })),
            false => Err("`$host` is the whole name of one directory, such as /srv/$host".into()),
        }
    }

    /// The directories that are there now, as this process may read their names; whether they can
    /// be entered is seen by who opens them. A link is taken for one. Blocks on the disk.
    ///
    /// # Errors
    /// When the directory above them cannot be read.
    pub fn list(&self) -> io::Result<Listed> {
        let mut listed = Listed::default();
        let hosts = Hosts::of([(0, &*self.hosts)].into_iter());
        for (name, inode) in subdirectories::names(&self.base)? {
            match name.to_str().filter(|name| is_name(name)) {
                None => listed.others.push(name.to_string_lossy().into_owned()),
                Some(host) if hosts.choose(host.as_bytes()).is_some() => {
                    listed.hosts.push((host.to_owned(), inode));
                }
                // Another site may be for it.
                Some(_) => {}
            }
        }
        listed.hosts.sort();
        listed.others.sort();
        Ok(listed)
    }

    /// The hosts that are there now; none where they cannot be read. Blocks on the disk.
    pub fn names(&self) -> Vec<String> {
        let listed = self.list().unwrap_or_default();
        listed.hosts.into_iter().map(|(host, _)| host).collect()
    }

    /// The name of what is served of a host, beneath the directory above all.
    fn name_of(&self, host: &str) -> PathBuf {
        Path::new(host).join(&self.beneath).components().collect()
    }
}

/// Puts in for each site that stands for many those that it stands for now, behind all that were
/// written, and takes away those that were there. `source_of` says where the certificate of a host
/// comes from that says what all say, or why it can have none, in words that its name follows. What
/// is not served is told: which names are those of no host, which hosts another site has, and which
/// have no certificate. Blocks on the disk.
///
/// # Errors
/// A directory that cannot be read, or has too many.
pub fn spread(
    sites: &mut Vec<SiteSettings>,
    mut source_of: impl FnMut(&str, &TlsSettings) -> Result<CertificateSource, &'static str>,
) -> Result<Vec<String>, String> {
    sites.retain(|site| !matches!(site.spread, Spread::Of(_)));
    let (mut told, mut spread) = (Vec::new(), Vec::new());
    let written = sites.iter().flat_map(|site| &site.hosts).cloned();
    let mut taken: HashSet<String> = written.collect();
    for (number, site) in sites.iter().enumerate() {
        let Spread::Each(roots) = &site.spread else { continue };
        let base = roots.base.display();
        let listed = roots.list().map_err(|error| format!("{base}: {error}"))?;
        told.extend(
            named(&listed.others)
                .map(|names| format!("site.root: no hosts, and not served, are {names} of {base}")),
        );
        let (mut others, mut bare) = (Vec::new(), BTreeMap::<_, Vec<String>>::new());
        for (host, _) in listed.hosts {
            if !taken.insert(host.clone()) {
                others.push(host);
                continue;
            }
            let source = source_of(&host, &site.tls).unwrap_or_else(|why| {
                bare.entry(why).or_default().push(host.clone());
                CertificateSource::None
            });
            let tls = TlsSettings { source, ..site.tls.for_host(&host) };
            spread.push(site.for_host((number, roots), host, tls));
        }
        told.extend(bare.iter().filter_map(|(why, bare)| {
            let names = named(bare)?;
            Some(format!("site.certificate: {why} {names} of {base}: they have none"))
        }));
        told.extend(named(&others).map(|names| {
            format!("site.root: another site answers to the hosts {names} of {base}")
        }));
        if spread.len() > HOST_ROOTS_MAX {
            return Err(format!("{base}: there are more than {HOST_ROOTS_MAX} hosts"));
        }
    }
    sites.extend(spread);
    Ok(told)
}

/// Of so many names the first.
fn named(names: &[String]) -> Option<String> {
    let first: Vec<String> =
        names.iter().take(NAMES_TOLD_MAX).map(|name| format!("{name:?}")).collect();
    let more = match names.len().saturating_sub(NAMES_TOLD_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| first.join(", ") + &more)
}

impl TlsSettings {
    /// The same for a host: files with `$host` in their names are its own.
    fn for_host(&self, host: &str) -> TlsSettings {
        let mut tls = self.clone();
        for files in &mut tls.certificates {
            for path in [&mut files.chain, &mut files.key] {
                if let Some(name) = path.to_str().filter(|name| name.contains(HOST)) {
                    *path = name.replace(HOST, host).into();
                }
            }
        }
        tls
    }
}

impl SiteSettings {
    /// The site of a host: what all have is said by the one of this number.
    fn for_host(
        &self,
        (number, roots): (usize, &HostRoots),
        host: String,
        tls: TlsSettings,
    ) -> SiteSettings {
        SiteSettings {
            root: Some(roots.base.join(roots.name_of(&host))),
            hosts: vec![host],
            cgi: self.cgi.clone(),
            fastcgi: self.fastcgi.clone(),
            scgi: self.scgi.clone(),
            tls,
            symlinks: self.symlinks,
            access_log: self.access_log.clone(),
            spread: Spread::Of(number),
            ..SiteSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls_settings::CertificateFiles;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn as_written(_: &str, tls: &TlsSettings) -> Result<CertificateSource, &'static str> {
        Ok(tls.source.clone())
    }

    fn roots(root: &Path) -> HostRoots {
        HostRoots::of(root, &["*".into()]).unwrap().unwrap()
    }

    #[test]
    fn a_root_has_the_host_as_the_name_of_one_directory() {
        for (root, base, beneath) in [
            ("/srv/$host", "/srv", ""),
            ("/srv/$host/public", "/srv", "public"),
            ("/$host/a/b", "/", "a/b"),
        ] {
            let roots = roots(Path::new(root));
            assert_eq!((roots.base, roots.beneath), (base.into(), beneath.into()), "{root}");
        }
        for root in ["/srv/www", "/srv/host"] {
            assert_eq!(HostRoots::of(Path::new(root), &[]), Ok(None), "{root}");
        }
        for root in ["/srv/www.$host", "/srv/$host/$host", "/srv/$hosts", "/a/$host/b$host"] {
            assert!(HostRoots::of(Path::new(root), &[]).is_err(), "{root}");
        }
    }

    #[test]
    fn each_directory_that_a_host_names_is_a_site_and_no_other() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["a.test", "b-1.test", "xn--bcher-kva.test", "localhost", "other.test"] {
            fs::create_dir(at(name)).unwrap();
        }
        let no_hosts = ["Upper.test", "a.test.", ".hidden", "a..test", "b.test:80", "a b", "-"];
        for name in no_hosts {
            fs::create_dir(at(name)).unwrap();
        }
        fs::write(at("file.test"), "").unwrap();
        symlink("a.test", at("link.test")).unwrap();
        let mut sites = vec![
            SiteSettings { hosts: vec!["other.test".into()], ..SiteSettings::default() },
            SiteSettings {
                hosts: Vec::new(),
                spread: Spread::Each(roots(&at("$host/www"))),
                ..SiteSettings::default()
            },
        ];
        for _ in 0..2 {
            let told = spread(&mut sites, as_written).unwrap();
            let hosts: Vec<&str> = sites[2..].iter().map(|site| &*site.hosts[0]).collect();
            let expected = ["a.test", "b-1.test", "link.test", "localhost", "xn--bcher-kva.test"];
            assert_eq!(hosts, expected);
            assert_eq!(sites[2].root, Some(at("a.test/www")));
            assert!(sites[2..].iter().all(|site| site.spread == Spread::Of(1)));
            assert_eq!(told.len(), 2, "{told:?}");
            assert!(told[0].contains("\"-\", \".hidden\", \"Upper.test\" and 4 more"), "{told:?}");
            assert!(told[1].contains("the hosts \"other.test\" of"), "{told:?}");
        }
        fs::remove_dir(at("b-1.test")).unwrap();
        spread(&mut sites, as_written).unwrap();
        assert_eq!(sites.len(), 6);
    }

    #[test]
    fn a_host_has_the_certificate_that_is_named_by_it_or_comes_from_where_it_can() {
        let base = tempfile::tempdir().unwrap();
        for name in ["a.test", "b.test"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let file = |name: &str| {
            let file = base.path().join(format!("{name}.pem"));
            CertificateFiles { chain: file.clone(), key: file, written: String::new() }
        };
        let mut sites = vec![SiteSettings {
            hosts: Vec::new(),
            spread: Spread::Each(roots(&base.path().join("$host"))),
            tls: TlsSettings { certificates: vec![file("$host")], ..TlsSettings::default() },
            ..SiteSettings::default()
        }];
        let source = |host: &str, _: &TlsSettings| match host {
            "a.test" => Ok(CertificateSource::Internal),
            _ => Err("no authority vouches for"),
        };
        let told = spread(&mut sites, source).unwrap();
        assert_eq!(sites[1].tls.certificates, [file("a.test")]);
        assert_eq!(sites[2].tls.certificates, [file("b.test")]);
        assert_eq!(sites[1].tls.source, CertificateSource::Internal);
        assert_eq!(sites[2].tls.source, CertificateSource::None);
        assert!(told.len() == 1 && told[0].contains("vouches for \"b.test\" of"), "{told:?}");
        assert_eq!(sites[0].secrets().count(), 0);
    }

    #[test]
    fn the_hosts_of_the_site_say_which_directories_are_meant() {
        let base = tempfile::tempdir().unwrap();
        for name in ["a.test", "b.example", "example"] {
            fs::create_dir(base.path().join(name)).unwrap();
        }
        let hosts = ["*.example".to_owned()];
        let roots = HostRoots::of(&base.path().join("$host"), &hosts).unwrap().unwrap();
        let listed = roots.list().unwrap();
        let names: Vec<&str> = listed.hosts.iter().map(|(name, _)| &**name).collect();
        assert_eq!((names, listed.others), (vec!["b.example"], vec![]));
    }
}
