//! The second stage: what the user wrote becomes what the server runs by, or a list of errors.

use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;

use flyball_arch::{AdminAddress, Settings};
use flyball_site::SiteSettings;
use flyball_sys::net::Address;

use super::error::{ERRORS_MAX, Origin, SettingError};
use super::expand::{Environment, process_environment};
use super::file::SITE;
use super::raw::Raw;
use super::server::SETTINGS;
use super::site::SITE_SETTINGS;
use super::suggest::nearest;
use super::table::{Setting, find};
use super::typed::{Typed, TypedSite, Written};

/// The port on 127.0.0.1 that is listened on when no address is given.
pub const PORT: u16 = 8080;

/// How many further ports are tried when [`PORT`] is taken and no address is given.
pub const PORT_TRIES: u16 = 100;

/// Checks what was written and freezes it. `arch_names` are the names of all architectures.
///
/// Defaults hold first, then the values of `typed` in their order. Environment variables are put
/// into the values of the file. Looks at the roots of the sites, so it blocks on the disk.
///
/// # Errors
/// All that is wrong, in reading order, [`ERRORS_MAX`] at most.
pub fn resolve(typed: &Typed, arch_names: &[&str]) -> Result<Settings, Vec<SettingError>> {
    resolve_in(typed, arch_names, &process_environment)
}

/// [`resolve`] with another environment than that of the process.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_in(
    typed: &Typed,
    arch_names: &[&str],
    environment: Environment<'_>,
) -> Result<Settings, Vec<SettingError>> {
    let mut resolver = Resolver { environment, errors: Vec::new() };
    let mut settings = Settings::default();
    let origins = resolver.values(SERVER, &typed.values, &mut settings);
    resolver.architecture(&settings.arch, &origins, arch_names);
    if settings.listen.is_empty() {
        settings.listen = vec![Address::from(([127, 0, 0, 1], PORT))];
        settings.port_tries = PORT_TRIES;
    }
    resolver.addresses(&settings, &origins);
    settings.given = origins.keys().copied().collect();
    settings.given.sort_unstable();
    settings.sites = resolver.sites(typed);
    resolver.finish(settings)
}

/// Where the value that holds was written, by key.
type Origins = HashMap<&'static str, Origin>;

/// A table of settings and what is said about keys that are not in it.
struct Keys<T: 'static> {
    table: &'static [Setting<T>],
    /// Stands before the keys in errors.
    prefix: &'static str,
    /// Why a key is wrong; `None` when it is not.
    unknown: fn(&Written) -> Option<String>,
}

const SERVER: Keys<Settings> = Keys { table: SETTINGS, prefix: "", unknown: unknown_server_key };

const SITES: Keys<SiteSettings> =
    Keys { table: SITE_SETTINGS, prefix: "site.", unknown: unknown_site_key };

struct Resolver<'a> {
    environment: Environment<'a>,
    errors: Vec<SettingError>,
}

impl Resolver<'_> {
    fn values<T>(&mut self, keys: Keys<T>, values: &[Written], target: &mut T) -> Origins {
        let mut origins = Origins::new();
        for written in values {
            if self.errors.len() >= ERRORS_MAX {
                break;
            }
            let why = match find(keys.table, &written.key) {
                Some(setting) => {
                    origins.insert(setting.key, written.origin.clone());
                    self.value(setting, written, target).err()
                }
                None => (keys.unknown)(written),
            };
            self.errors.extend(why.map(|why| written.error(keys.prefix, why)));
        }
        origins
    }

    fn value<T>(
        &self,
        setting: &Setting<T>,
        written: &Written,
        target: &mut T,
    ) -> Result<(), String> {
        // On the command line, the shell has put the variables in already.
        let raw = match written.origin {
            Origin::File { .. } => written.raw.expanded(self.environment)?,
            _ => written.raw.clone(),
        };
        setting
            .apply(target, &raw, written.origin.base())
            .map_err(|wrong| format!("expected {}, found {}", wrong.expected, wrong.found))
    }

    fn architecture(&mut self, name: &str, origins: &Origins, known: &[&str]) {
        if !known.contains(&name) {
            let hint = did_you_mean(nearest(name, known.iter().copied()));
            let why = format!("there is no architecture {name:?}{hint}");
            self.errors.push(wrong("arch", name, why, origins));
        }
    }

    /// One address cannot be bound twice. Port 0 is a new port each time.
    fn addresses(&mut self, settings: &Settings, origins: &Origins) {
        for (i, address) in settings.listen.iter().enumerate() {
            if address.port() != 0 && settings.listen[..i].contains(address) {
                let why = format!("{address} is listed twice");
                self.errors.push(wrong("listen", &address.to_string(), why, origins));
            }
        }
        if let Some(AdminAddress::Tcp(admin)) = &settings.admin
            && admin.port() != 0
            && settings.listen.contains(admin)
        {
            let why = format!("{admin} is an address of `listen` too");
            self.errors.push(wrong("admin", &admin.to_string(), why, origins));
        }
    }

    fn sites(&mut self, typed: &Typed) -> Vec<SiteSettings> {
        match (&typed.directory, typed.sites.as_slice(), &typed.file) {
            (Some(directory), [], _) => vec![self.directory(directory)],
            (None, [], None) => vec![self.directory(Path::new("."))],
            (None, [], Some(path)) => {
                let origin = Origin::File { path: path.clone(), line: None };
                self.errors.push(SettingError {
                    key: SITE.into(),
                    value: None,
                    why: "there is no [[site]] table, and no DIR is given to be served".into(),
                    origin,
                });
                Vec::new()
            }
            (Some(directory), [site, ..], _) => {
                let why = format!(
                    "both DIR and a [[site]] table ({}) say what is served; give one",
                    site.origin
                );
                self.errors.push(root_error(directory, why, Origin::Directory));
                Vec::new()
            }
            (None, sites, _) => self.sites_of_file(sites),
        }
    }

    /// The one site of `flyball serve DIR`.
    fn directory(&mut self, root: &Path) -> SiteSettings {
        self.root(root, &Origin::Directory);
        SiteSettings { root: root.to_owned(), listing: true, ..SiteSettings::default() }
    }

    fn sites_of_file(&mut self, typed: &[TypedSite]) -> Vec<SiteSettings> {
        let mut claims: HashMap<String, Origin> = HashMap::new();
        let mut sites = Vec::new();
        for typed_site in typed {
            if self.errors.len() >= ERRORS_MAX {
                break;
            }
            let mut site = SiteSettings::default();
            let origins = self.values(SITES, &typed_site.values, &mut site);
            match origins.get("root") {
                Some(origin) => self.root(&site.root, origin),
                None => {
                    let why = "is missing: the directory that is served".to_owned();
                    self.errors.push(SettingError {
                        key: "site.root".into(),
                        value: None,
                        why,
                        origin: typed_site.origin.clone(),
                    });
                }
            }
            let origin = origins.get("hosts").unwrap_or(&typed_site.origin);
            self.hosts(&site.hosts, origin, &mut claims);
            sites.push(site);
        }
        sites
    }

    fn hosts(&mut self, hosts: &[String], origin: &Origin, claims: &mut HashMap<String, Origin>) {
        for host in hosts {
            // `example.org.` is the same host (RFC 3986, section 3.2.2).
            let name = host.strip_suffix('.').unwrap_or(host).to_owned();
            let Some(first) = claims.insert(name, origin.clone()) else { continue };
            let why = match host.as_str() {
                "*" => format!("there is a default site (hosts `*`) already, at {first}"),
                _ => format!("{host} is claimed already, at {first}"),
            };
            self.errors.push(SettingError {
                key: "site.hosts".into(),
                value: Some(host.clone()),
                why,
                origin: origin.clone(),
            });
        }
    }

    /// A root must be there, be a directory, and be readable now rather than at the first request.
    fn root(&mut self, root: &Path, origin: &Origin) {
        let shown = root.display();
        let why = match std::fs::metadata(root) {
            Ok(metadata) if !metadata.is_dir() => format!("{shown} is not a directory"),
            Ok(_) => match std::fs::read_dir(root) {
                Ok(_) => return,
                Err(error) => format!("{shown} cannot be read: {error}"),
            },
            Err(error) => format!("{shown} cannot be found: {error}"),
        };
        // A wrong value has its error already, and the default in its place is not to blame.
        let reported = |error: &SettingError| error.key == "site.root" && &error.origin == origin;
        if !self.errors.iter().any(reported) {
            self.errors.push(root_error(root, why, origin.clone()));
        }
    }

    fn finish(mut self, settings: Settings) -> Result<Settings, Vec<SettingError>> {
        if self.errors.is_empty() {
            return Ok(settings);
        }
        self.errors.sort_by_key(|error| error.origin.order());
        self.errors.truncate(ERRORS_MAX);
        Err(self.errors)
    }
}

impl Written {
    fn error(&self, prefix: &str, why: String) -> SettingError {
        let value = match &self.raw {
            Raw::Text(text) => text.clone(),
            raw => raw.to_string(),
        };
        let key = format!("{prefix}{}", self.key);
        SettingError { key, value: Some(value), why, origin: self.origin.clone() }
    }
}

fn wrong(key: &'static str, value: &str, why: String, origins: &Origins) -> SettingError {
    let origin = origins.get(key).cloned().unwrap_or(Origin::Default);
    SettingError { key: key.into(), value: Some(value.to_owned()), why, origin }
}

fn root_error(root: &Path, why: String, origin: Origin) -> SettingError {
    SettingError { key: "site.root".into(), value: Some(root.display().to_string()), why, origin }
}

/// `None` for an empty table whose name is known: it says nothing, and that is no error.
fn unknown_server_key(written: &Written) -> Option<String> {
    let keys = keys_beneath(&written.key);
    let why = match written.key.as_str() {
        _ if !keys.is_empty() && matches!(written.raw, Raw::Map(_)) => return None,
        _ if !keys.is_empty() => format!("is a table with the keys {}", keys.join(", ")),
        SITE => "sites are written as [[site]] tables in a file".to_owned(),
        key if key.starts_with("site.") => {
            "the settings of a site are written in its [[site]] table in a file".to_owned()
        }
        key => {
            let keys = SETTINGS.iter().map(|setting| setting.key);
            let tables = keys.clone().filter_map(|key| key.split_once('.')).map(|(table, _)| table);
            let near = nearest(key, keys).or_else(|| nearest(key, tables.chain([SITE])));
            format!("unknown key{}", did_you_mean(near))
        }
    };
    Some(why)
}

fn unknown_site_key(written: &Written) -> Option<String> {
    let key = written.key.as_str();
    let why = if find(SETTINGS, key).is_some() || !keys_beneath(key).is_empty() {
        format!("unknown key of a site; {key} belongs above the first [[site]] table")
    } else {
        let near = nearest(key, SITE_SETTINGS.iter().map(|setting| setting.key));
        format!("unknown key{}", did_you_mean(near.map(|near| format!("site.{near}"))))
    };
    Some(why)
}

/// The keys of the table of this name, without the name.
fn keys_beneath(table: &str) -> Vec<&'static str> {
    let key = |setting: &Setting| setting.key.strip_prefix(table)?.strip_prefix('.');
    SETTINGS.iter().filter_map(key).collect()
}

fn did_you_mean(near: Option<impl Display>) -> String {
    near.map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}
