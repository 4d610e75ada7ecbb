//! What the agent that gets certificates is to do, by the settings.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flyball_acme::{
    Authority, Configuration, External, Kind, Name, STORAGE_NAMES, certificate_path,
};
use flyball_arch::settings::{SandboxMode, Settings};
use flyball_site::hosts::without_brackets;
use flyball_site::{CertificateFiles, CertificateSource, SiteSettings};
use flyball_sys::{own_directory, secret_file};
use flyball_tls::ClientAuth;

use crate::sandbox::Confinement;

/// Longest file of a key of an account elsewhere, in bytes.
const KEY_BYTES_MAX: u64 = 4_096;

/// The profile of Let's Encrypt for addresses.
const OF_ADDRESSES: &str = "shortlived";

/// Longest file of authorities that the authority's own server is known by, in bytes.
const ROOTS_BYTES_MAX: u64 = 4 << 20;

/// The names of the certificate of a site: its hosts, addresses without their brackets.
pub fn names_of(site: &SiteSettings) -> Vec<String> {
    site.hosts.iter().map(|host| without_brackets(host).to_owned()).collect()
}

/// Where the agent leaves the certificate of these names.
///
/// # Errors
/// When the first of them can be no name of a certificate.
pub(crate) fn files_of(names: &[String], storage: &Path) -> Result<CertificateFiles, String> {
    let first = Name::parse(names.first().map(String::as_str).unwrap_or_default())?;
    let path = certificate_path(storage, &first);
    Ok(CertificateFiles { chain: path.clone(), key: path, written: String::new() })
}

/// What the agent is to do; nothing where no site is to get a certificate. Blocks on the disk.
///
/// # Errors
/// Which setting cannot be used, and why.
pub(crate) fn configuration(
    settings: &Settings,
    confinement: &Confinement,
) -> Result<Option<Configuration>, String> {
    let acme = &settings.tls.acme;
    let is_wanted =
        |site: &&SiteSettings| site.tls.source == CertificateSource::Acme && !site.is_many();
    let certificates: Vec<_> = settings.sites.iter().filter(is_wanted).map(names_of).collect();
    if certificates.is_empty() || !settings.speaks_tls() {
        return Ok(None);
    }
    let external = external(settings)?;
    check_files(settings)?;
    check_rights(settings, confinement)?;
    let authority = |directory: &String| {
        let known = Authority::new(directory);
        Authority {
            roots: acme.roots.clone(),
            profile: acme.profile.clone(),
            external: external.clone().filter(|_| !known.is_lets_encrypt()),
            ..known
        }
    };
    let configuration = Configuration {
        storage: acme.storage.clone(),
        authorities: acme.directories.iter().map(authority).collect(),
        email: acme.email.clone(),
        challenges: acme.challenges.iter().filter_map(|name| Kind::named(name)).collect(),
        dns_hook: acme.dns_hook.clone(),
        confines: settings.sandbox.mode != SandboxMode::Off,
        certificates,
    };
    configuration.check().map_err(|why| format!("acme: {why}"))?;
    Ok(Some(configuration))
}

/// Looks whether the files are there that are needed first when something is ordered, and what it
/// would be kept in can be the agent's.
fn check_files(settings: &Settings) -> Result<(), String> {
    let acme = &settings.tls.acme;
    match own_directory::examine(&acme.storage, &STORAGE_NAMES) {
        Err(error) if error.kind() != ErrorKind::DirectoryNotEmpty => {
            let why = format!("{}: {error}", acme.storage.display());
            return Err(settings.blame("acme.storage", why));
        }
        // The certificates that are there are served all the same.
        _ => {}
    }
    if let Some(path) = &acme.roots {
        let read = secret_file::read(path, ROOTS_BYTES_MAX);
        let read = read.map_err(|error| format!("cannot be read: {error}"));
        let roots = read.and_then(|file| {
            ClientAuth::from_pem(&file.bytes, None, false).map_err(|fault| fault.why)
        });
        let blame = |why| settings.blame("acme.ca-root", format!("{} {why}", path.display()));
        roots.map_err(blame)?;
    }
    match acme.dns_hook.first() {
        Some(program) => check_program(program).map_err(|why| settings.blame("acme.dns-hook", why)),
        None => Ok(()),
    }
}

/// Looks whether there is this program, in the directories of PATH if it is a name alone.
fn check_program(program: &str) -> Result<(), String> {
    let is_executable =
        |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0);
    if program.contains('/') {
        let is_one = is_executable(Path::new(program));
        return is_one
            .then_some(())
            .ok_or_else(|| format!("{program} is no program that can be executed"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|place| is_executable(&place.join(program)));
    let why = || format!("no directory of PATH has a program {program} that can be executed");
    is_there.then_some(()).ok_or_else(why)
}

/// A warning where something was put into the storage, which the agent does not enter then.
pub(crate) fn warning(settings: &Settings) -> Option<String> {
    let storage = &settings.tls.acme.storage;
    let is_used = |site: &SiteSettings| site.tls.source == CertificateSource::Acme;
    if !settings.speaks_tls() || !settings.sites.iter().any(is_used) {
        return None;
    }
    let error = own_directory::examine(storage, &STORAGE_NAMES).err()?;
    let why = format!("{}: {error}; no certificate is got until it is", storage.display());
    Some(settings.blame("acme.storage", why))
}

/// A warning where Let's Encrypt is asked for a certificate that it issues by one profile alone.
pub(crate) fn profile_warning(settings: &Settings) -> Option<String> {
    let acme = &settings.tls.acme;
    let is_asked = |site: &&SiteSettings| site.tls.source == CertificateSource::Acme;
    let mut hosts = settings.sites.iter().filter(is_asked).flat_map(|site| &site.hosts);
    let is_address = |host: &&String| Name::parse(host).is_ok_and(|name| name.address().is_some());
    let host = hosts.find(is_address)?;
    let is_lets_encrypt = |directory: &String| Authority::new(directory).is_lets_encrypt();
    let is_refused = acme.profile.as_deref() != Some(OF_ADDRESSES)
        && settings.speaks_tls()
        && acme.directories.iter().any(is_lets_encrypt);
    is_refused.then(|| {
        format!(
            "Let's Encrypt issues certificates for addresses, such as {host}, with acme.profile = \
             {OF_ADDRESSES:?} alone"
        )
    })
}

/// Looks whether the agent can read what it reads itself.
///
/// # Errors
/// Which setting names what it cannot, and who it is.
fn check_rights(settings: &Settings, confinement: &Confinement) -> Result<(), String> {
    let Some(path) = &settings.tls.acme.roots else { return Ok(()) };
    match confinement.lets_agent(|| secret_file::read(path, ROOTS_BYTES_MAX).is_ok()) {
        true => Ok(()),
        false => {
            let (path, user) = (path.display(), confinement.user().unwrap_or("its own"));
            let why = format!(
                "{path} cannot be read by the agent that gets certificates, which is the user \
                 {user}: let that user read it, and enter the directories above it"
            );
            Err(settings.blame("acme.ca-root", why))
        }
    }
}

/// The account elsewhere, with its key.
fn external(settings: &Settings) -> Result<Option<External>, String> {
    let acme = &settings.tls.acme;
    let (Some(id), Some(path)) = (&acme.external, &acme.external_key) else { return Ok(None) };
    let blame =
        |why: String| settings.blame("acme.external-key", format!("{} {why}", path.display()));
    let file = secret_file::read(path, KEY_BYTES_MAX)
        .map_err(|error| blame(format!("cannot be read: {error}")))?;
    if file.is_open_to_all() {
        return Err(blame(format!("is open to all users (mode {:04o}): chmod 600", file.mode)));
    }
    let key = String::from_utf8(file.bytes).map_err(|_| blame("holds no text".into()))?;
    let external = External { id: id.clone(), key: key.trim().to_owned() };
    external.check().map_err(|why| blame(why.to_owned()))?;
    Ok(Some(external))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn configured(settings: &Settings) -> Result<Option<Configuration>, String> {
        let architecture = flyball_arch::find("n-copy").unwrap();
        configuration(settings, &Confinement::new(architecture, settings)?)
    }

    fn site(hosts: &[&str]) -> SiteSettings {
        let hosts = hosts.iter().map(ToString::to_string).collect();
        let mut site = SiteSettings { hosts, ..SiteSettings::default() };
        site.tls.source = CertificateSource::Acme;
        site
    }

    fn settings(sites: Vec<SiteSettings>, listen: &str) -> Settings {
        let tls = listen.starts_with("https");
        let address: flyball_sys::net::Address = "127.0.0.1:443".parse().unwrap();
        let listen = vec![flyball_arch::settings::Listen { tls, ..address.into() }];
        Settings { sites, listen, ..Settings::default() }
    }

    #[test]
    fn each_site_with_a_certificate_by_acme_has_one_with_its_hosts() {
        let other = SiteSettings::default();
        let sites = vec![site(&["a.test", "[2001:db8::1]"]), other, site(&["b.test"])];
        let told = configured(&settings(sites.clone(), "https")).unwrap().unwrap();
        assert_eq!(told.certificates, [vec!["a.test", "2001:db8::1"], vec!["b.test"]]);
        assert_eq!(told.authorities[0].directory, "letsencrypt");
        assert!(configured(&settings(sites, "http")).unwrap().is_none());
        let why = configured(&settings(vec![site(&["*.a.test"])], "https")).unwrap_err();
        assert!(why.contains("*.a.test is ours"), "{why}");
    }

    #[test]
    fn what_is_needed_first_when_something_is_ordered_is_looked_for_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let mut settings = settings(vec![site(&["a.test"])], "https");
        settings.tls.acme.dns_hook = vec![file.to_str().unwrap().to_owned()];
        assert!(configured(&settings).unwrap_err().contains("no program"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(configured(&settings).is_ok());
        for (program, why) in [
            ("./no-such-hook", "./no-such-hook is no program"),
            ("no-such-hook", "no directory of PATH has a program no-such-hook"),
        ] {
            settings.tls.acme.dns_hook = vec![program.to_owned()];
            let told = configured(&settings).unwrap_err();
            assert!(told.contains("acme.dns-hook") && told.contains(why), "{told}");
        }
        settings.tls.acme.dns_hook = vec!["sh".to_owned()];
        assert!(configured(&settings).is_ok());
        for (path, why) in [(&file, "no certificate"), (&dir.path().join("none"), "cannot be read")]
        {
            settings.tls.acme.roots = Some(path.clone());
            let told = configured(&settings).unwrap_err();
            assert!(told.contains("acme.ca-root") && told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_storage_that_is_no_directory_for_this_alone_is_told_before_anything_starts() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(vec![site(&["a.test"])], "https");
        let told = |settings: &Settings| configured(settings).unwrap_err();
        settings.tls.acme.storage = dir.path().join("none");
        assert!(configured(&settings).is_ok() && !settings.tls.acme.storage.exists());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("none", &link).unwrap();
        fs::create_dir(dir.path().join("none")).unwrap();
        assert!(configured(&settings).is_ok());
        let (root, page) = (dir.path().join("root"), dir.path().join("root/index.html"));
        fs::create_dir(&root).unwrap();
        fs::write(&page, "x").unwrap();
        for (path, why) in [
            (&root, "holds index.html too"),
            (&link, "a link or a file"),
            (&page, "a link or a file"),
        ] {
            settings.tls.acme.storage.clone_from(path);
            let told = told(&settings);
            assert!(told.contains("acme.storage") && told.contains(why), "{told}");
        }
        // What is put into one that is in use keeps no site from being served.
        fs::create_dir(root.join(STORAGE_NAMES[0])).unwrap();
        settings.tls.acme.storage.clone_from(&root);
        assert!(configured(&settings).is_ok());
        let told = warning(&settings).unwrap();
        assert!(told.contains("acme.storage") && told.contains("holds index.html too"), "{told}");
        fs::remove_file(&page).unwrap();
        assert_eq!(warning(&settings), None);
    }

    #[test]
    fn an_address_for_which_lets_encrypt_issues_nothing_is_told() {
        for (host, directory, profile, is_told) in [
            ("9.9.9.9", "letsencrypt", None, true),
            ("[2001:db8::1]", "letsencrypt-staging", Some("classic"), true),
            ("9.9.9.9", "letsencrypt", Some("shortlived"), false),
            ("9.9.9.9", "zerossl", None, false),
            ("a.test", "letsencrypt", None, false),
        ] {
            let mut settings = settings(vec![site(&["b.test", host])], "https");
            settings.tls.acme.directories = vec![directory.into()];
            settings.tls.acme.profile = profile.map(str::to_owned);
            let told = profile_warning(&settings);
            assert_eq!(told.is_some_and(|told| told.contains(host)), is_told, "{host} {directory}");
        }
    }

    #[test]
    fn an_account_elsewhere_is_told_to_those_alone_that_may_want_it() {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        fs::write(&key, "c2VjcmV0\n").unwrap();
        let mut settings = settings(vec![site(&["a.test"])], "https");
        let acme = &mut settings.tls.acme;
        acme.directories = vec!["letsencrypt".into(), "zerossl".into()];
        (acme.external, acme.external_key) = (Some("id".into()), Some(key.clone()));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(configured(&settings).unwrap_err().contains("open to all users"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        for (text, why) in [("\n", "holds no key"), ("not base64!", "holds no key in base64url")] {
            fs::write(&key, text).unwrap();
            let told = configured(&settings).unwrap_err();
            assert!(told.contains("acme.external-key") && told.contains(why), "{told}");
        }
        fs::write(&key, "c2VjcmV0\n").unwrap();
        let told = configured(&settings).unwrap().unwrap();
        assert_eq!(told.authorities[0].external, None);
        let external = External { id: "id".into(), key: "c2VjcmV0".into() };
        assert_eq!(told.authorities[1].external, Some(external));
    }
}
