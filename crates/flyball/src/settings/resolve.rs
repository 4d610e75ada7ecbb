//! The second stage: what the user wrote becomes what the server runs by, or a list of errors.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use flyball_arch::registry::DEFAULT;
use flyball_arch::{Settings, TicketKeys};
use flyball_site::hosts::{Hosts, local_names};
use flyball_site::modules::ModuleSettings;
use flyball_site::routes::{ERROR_PAGE_BYTES_MAX, RouteSettings};
use flyball_site::{CertificateSource, HostRoots, SiteSettings, Spread};
use flyball_sys::sandbox::Identity;
use flyball_sys::{file, secret_file};

use super::error::{ERRORS_MAX, Origin, SettingError};
use super::expand::{Environment, process_environment};
use super::file::SITE;
use super::keys::{Keys, did_you_mean};
use super::listeners::{self, LISTENERS, Listeners, Place};
use super::origins::{Origins, Tables, faults};
use super::raw::Raw;
use super::site::{SITE_SETTINGS, SITE_TABLES};
use super::suggest::nearest;
use super::table::{Setting, Table, find};
use super::typed::{Typed, TypedSite, TypedTable, Written};
use super::{
    access_files, certificates, client_certificates, contradictions, duplicates, include, moved,
    runtime, secret_files, shortcuts, state,
};

/// The port on 127.0.0.1 that is listened on when no address is given.
pub const PORT: u16 = 8080;

/// How many further ports are tried when [`PORT`] is taken and no address is given.
pub const PORT_TRIES: u16 = 100;

/// What holds where nothing is written.
pub fn defaults() -> Settings {
    Settings { arch: DEFAULT.into(), ..Settings::default() }
}

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
    let notes = typed.unmatched.clone();
    let mut resolver = Resolver { environment, notes, errors: Vec::new() };
    let mut settings = defaults();
    let origins = resolver.values(&Keys::SERVER, &typed.values, &mut settings);
    resolver.architecture(&settings.arch, &origins, arch_names);
    let places = resolver.listeners(&typed.listeners, &origins, &mut settings);
    shortcuts::listen(typed, &mut settings);
    if let (TicketKeys::File(path), Some(origin)) =
        (&mut settings.tls.tickets, origins.get("tls.tickets"))
    {
        *path = absolute(origin.base()).join(&*path);
    }
    let is_acme = |written: &Written| written.key == "acme" || written.key.starts_with("acme.");
    settings.tls.acme.is_written = typed.values.iter().any(is_acme);
    shortcuts::server(typed, &mut settings);
    state::place(&mut settings.tls);
    runtime::place(&mut settings);
    resolver.errors.extend(listeners::faults(&settings, &places, &origins));
    settings.given = origins.keys.iter().map(|(key, origin)| (*key, origin.lead(key))).collect();
    resolver.together(&settings, &origins, &places);
    settings.sandbox.by_file |= typed.file.is_some();
    let files = typed.file.iter().chain(&typed.included);
    settings.running.files = files.map(|file| absolute(file)).collect();
    resolver.errors.extend(typed.values.iter().filter_map(include::fault));
    resolver.user(&settings, &origins);
    settings.sites = resolver.sites(typed, &settings);
    let faults = contradictions::of_logs(&settings).into_iter();
    resolver.errors.extend(faults.map(|(key, why)| missing(key, why, &origins)));
    if resolver.errors.is_empty()
        && let Err(why) = flyball_server::spread_hosts(&mut settings)
    {
        resolver.errors.push(missing("site.root", why, &origins));
    }
    if resolver.errors.is_empty() {
        resolver.errors.extend(listeners::faults_of_hosts(&settings, &places));
    }
    if !settings.sites.iter().any(|site| site.tls.source == CertificateSource::Internal) {
        settings.tls.internal.clear();
    }
    resolver.errors.extend(secret_files::faults_of_server(&settings, &origins));
    resolver.errors.extend(client_certificates::faults_of_server(&settings, &origins));
    resolver.finish(settings)
}

struct Resolver<'a> {
    environment: Environment<'a>,
    /// What is said of what is written, beside errors: of keys by the names that they had, and of
    /// patterns that fit no file.
    notes: Vec<String>,
    errors: Vec<SettingError>,
}

impl Resolver<'_> {
    fn values<T>(&mut self, keys: &Keys<T>, values: &[Written], target: &mut T) -> Origins {
        let mut origins = Origins::default();
        for written in values {
            if self.errors.len() >= ERRORS_MAX {
                break;
            }
            let key = self.named(written);
            let why = match find(keys.table, key) {
                Some(setting) => {
                    origins.add(setting.key, written);
                    self.value(setting, written, target).err()
                }
                None => keys.unknown(written),
            };
            self.errors.extend(why.map(|why| written.error(&keys.prefix(), why)));
        }
        origins
    }

    /// The key, by its name now.
    fn named<'w>(&mut self, written: &'w Written) -> &'w str {
        let Some(now) = moved::renamed(&written.key) else { return &written.key };
        let place = written.origin.lead(&written.key);
        self.notes.push(format!("{place}is {now} now; the next version does not know it"));
        now
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
            .apply(target, &raw, &absolute(written.origin.base()))
            .map_err(|wrong| format!("expected {}, found {}", wrong.expected, wrong.found))
    }

    fn architecture(&mut self, name: &str, origins: &Origins, known: &[&str]) {
        if !known.contains(&name) {
            let hint = did_you_mean(nearest(name, known.iter().copied()));
            let why = format!("there is no architecture {name:?}{hint}");
            self.errors.push(wrong("arch", name, why, origins));
        }
    }

    /// Adds the addresses of the `[[listener]]` tables to those of `listen`. Returns where each is
    /// written.
    fn listeners(
        &mut self,
        typed: &[TypedTable],
        origins: &Origins,
        settings: &mut Settings,
    ) -> Vec<Place> {
        let mut places: Vec<Place> =
            settings.listen.iter().map(|_| Place::of_listen(origins)).collect();
        let mut all = Listeners::new();
        for typed in typed {
            let origins = self.table(&LISTENERS, false, typed, &mut all);
            let Some(listener) = all.last() else { continue };
            match listener.listen(&typed.origin, &origins) {
                Ok(Some(listen)) => {
                    settings.listen.push(listen);
                    places.push(Place::of_table(&typed.origin, &origins));
                }
                Ok(None) => {}
                Err(error) => self.errors.push(error),
            }
        }
        places
    }

    /// Values must fit each other and the machine. What whoever starts the server makes, or has the
    /// right to, is looked at then.
    fn together(&mut self, settings: &Settings, origins: &Origins, places: &[Place]) {
        let lacks = flyball_server::lacks(settings).into_iter().filter(|lack| !lack.may_come);
        let faults = lacks.map(|lack| {
            let place = lack.listener.and_then(|at| places.get(at));
            let (key, why) = (lack.key, lack.why.clone());
            place
                .map_or_else(|| missing(key, why, origins), |place| place.lacks(lack.key, lack.why))
        });
        self.errors.extend(faults);
        let faults = contradictions::of_server(settings).into_iter();
        self.errors.extend(faults.map(|(key, why)| missing(key, why, origins)));
    }

    fn sites(&mut self, typed: &Typed, settings: &Settings) -> Vec<SiteSettings> {
        match (&typed.directory, typed.sites.as_slice(), &typed.file) {
            (Some(directory), [], _) => vec![self.directory(directory, typed, settings)],
            (None, [], None) => vec![self.directory(Path::new("."), typed, settings)],
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
                self.errors.push(path_error("site.root", directory, why, Origin::Directory));
                Vec::new()
            }
            (None, sites, _) => self.sites_of_file(sites, settings),
        }
    }

    /// The one site of `flyball serve DIR`. What only this machine reaches answers to no name that
    /// another user could have lead here.
    fn directory(&mut self, root: &Path, typed: &Typed, settings: &Settings) -> SiteSettings {
        self.root("site.root", root, &Origin::Directory);
        // Of what comes over a Unix-domain socket the proxy before it knows more.
        let mut addresses = settings.listen.iter().filter_map(|one| one.address.tcp()).peekable();
        let is_local = addresses.peek().is_some()
            && addresses.all(|address| address.ip().to_canonical().is_loopback());
        let hosts = match is_local {
            true => local_names(&settings.running.admin_hosts),
            false => SiteSettings::default().hosts,
        };
        let mut site = SiteSettings {
            hosts,
            root: Some(root.to_owned()),
            listing: true,
            tls: settings.tls.of_sites.clone(),
            access_log: settings.access_log.clone(),
            ..SiteSettings::default()
        };
        shortcuts::site(typed, settings, &mut site);
        self.errors.extend(shortcuts::faults(typed, settings, &site));
        site
    }

    fn sites_of_file(&mut self, typed: &[TypedSite], settings: &Settings) -> Vec<SiteSettings> {
        let mut claims: HashMap<String, Origin> = HashMap::new();
        let mut sockets = duplicates::Sockets::new();
        let (mut sites, mut right) = (Vec::new(), Vec::new());
        let hosts = self.hosts_of(typed, settings);
        for typed_site in typed {
            if self.errors.len() >= ERRORS_MAX {
                break;
            }
            let mut site = SiteSettings {
                tls: settings.tls.of_sites.clone(),
                access_log: settings.access_log.clone(),
                ..SiteSettings::default()
            };
            let before = self.errors.len();
            let origins = self.values(&Keys::SITE, &typed_site.values, &mut site);
            let tables = self.tables(&typed_site.tables, &mut site);
            self.spread(&mut site, &typed_site.origin, &origins);
            // What an unknown key was to say may be why it has no root.
            if typed_site.values.iter().all(|one| find(SITE_SETTINGS, &one.key).is_some()) {
                self.root_of_site(&site, &typed_site.origin, &origins);
            }
            self.log_of_site(&site, &origins);
            let origin = origins.get("hosts").unwrap_or(&typed_site.origin);
            // Where they are wrong, the default in their place claims nothing.
            let are_right = !self.errors[before..].iter().any(|error| error.key == "site.hosts");
            if are_right && !site.is_many() {
                self.hosts(&site.hosts, origin, &mut claims);
            }
            let speaks_tls = listeners::speak_tls(settings, &hosts, sites.len());
            certificates::choose(&mut site, settings, speaks_tls);
            certificates::place(&mut site.tls, &typed_site.origin, &origins, &tables);
            if self.errors.len() == before {
                self.errors.extend(certificates::faults(
                    &site,
                    (settings, speaks_tls),
                    &typed_site.origin,
                    &origins,
                    &tables,
                ));
                let origin = &typed_site.origin;
                let tls = (settings, speaks_tls);
                self.errors.extend(client_certificates::faults(&site, tls, origin, &origins));
                self.errors.extend(faults(&site, &typed_site.origin, &origins, &tables));
                self.files_of_routes(&site.routes, &typed_site.origin, &origins, &tables);
                self.fallback(&site, &origins);
                self.programs(&site, &tables);
                site.modules.extend(site.digest_path.as_deref().map(ModuleSettings::digest));
                self.modules(&site, &tables);
                self.errors.extend(access_files::faults(&site, &origins));
                self.errors.extend(duplicates::faults(&site, &tables));
                self.errors.extend(duplicates::sockets(&site, &tables, &mut sockets));
                self.errors.extend(contradictions::of_site(&site, &origins));
            }
            certificates::tell_browsers(&mut site, speaks_tls);
            if site.is_many() {
                site.hosts.clear();
            }
            if self.errors.len() == before {
                right.push((sites.len(), &typed_site.origin, origins));
            }
            sites.push(site);
        }
        self.errors.extend(secret_files::faults(&sites, &right));
        sites
    }

    /// A log of its own must be one that can be appended to.
    fn log_of_site(&mut self, site: &SiteSettings, origins: &Origins) {
        let Some(origin) = origins.get("access-log") else { return };
        let lack = flyball_server::lack_of_log("site.access-log", &site.access_log);
        self.errors.extend(lack.filter(|lack| !lack.may_come).map(|lack| SettingError {
            key: lack.key.to_owned(),
            value: None,
            why: lack.why,
            origin: origin.clone(),
        }));
    }

    /// The sites by host, before anything else of them is known.
    fn hosts_of(&self, typed: &[TypedSite], settings: &Settings) -> Hosts {
        let row = find(SITE_SETTINGS, "hosts");
        let site = |typed: &TypedSite| {
            let mut site = SiteSettings::default();
            for written in typed.values.iter().filter(|written| written.key == "hosts") {
                // What is wrong with them is told with the rest.
                let _ = row.map(|row| self.value(row, written, &mut site));
            }
            let root = typed.values.iter().rfind(|written| written.key == "root");
            if let (Some(row), Some(written)) = (find(SITE_SETTINGS, "root"), root)
                && self.value(row, written, &mut site).is_ok()
                && let Some(root) = &site.root
                && let Ok(Some(roots)) = HostRoots::of(root, &site.hosts)
            {
                site.hosts = roots.names();
            }
            site
        };
        listeners::hosts(&typed.iter().map(site).collect::<Vec<_>>(), settings)
    }

    /// A root with `$host` in it stands for many. What the hosts of a site decide is decided by
    /// those that are there, or where there are none yet, by the name of one.
    fn spread(&mut self, site: &mut SiteSettings, table: &Origin, origins: &Origins) {
        let Some(root) = site.root.clone() else { return };
        let origin = origins.get("root").unwrap_or(table);
        match HostRoots::of(&root, &site.hosts) {
            Ok(None) => {}
            Ok(Some(roots)) => {
                self.root("site.root", &roots.base, origin);
                let names = roots.names();
                site.hosts = if names.is_empty() { vec!["example.org".into()] } else { names };
                (site.root, site.spread) = (None, Spread::Each(roots));
                if site.responders().any(|(_, responder)| responder.pool.program.is_some()) {
                    let why = "stands for many sites, of which each would start programs of its \
                               own: start them otherwise, and name their `socket` alone";
                    self.errors.push(path_error("site.root", &root, why.into(), origin.clone()));
                }
            }
            Err(why) => self.errors.push(path_error("site.root", &root, why, origin.clone())),
        }
    }

    /// A site has a root, unless nothing of it needs one.
    fn root_of_site(&mut self, site: &SiteSettings, table: &Origin, origins: &Origins) {
        match (&site.root, origins.get("root")) {
            _ if site.is_many() => {}
            (Some(root), origin) => self.root("site.root", root, origin.unwrap_or(table)),
            // A wrong value has its error already.
            (None, Some(origin)) if self.errors.iter().any(|error| &error.origin == origin) => {}
            (None, _) if site.needs_no_root() => {}
            (None, origin) => {
                let why = "is missing: the directory that is served; only a site of nothing but \
                           redirects and returns may leave it out";
                self.errors.push(SettingError {
                    key: "site.root".into(),
                    value: None,
                    why: why.to_owned(),
                    origin: origin.unwrap_or(table).clone(),
                });
            }
        }
    }

    /// The tables below a site.
    fn tables(&mut self, typed: &[TypedTable], site: &mut SiteSettings) -> Tables {
        let mut tables = Tables::new();
        for typed in typed {
            let Some(known) = SITE_TABLES.iter().find(|known| known.key == typed.key) else {
                continue;
            };
            let origins = self.table(known, true, typed, site);
            tables.push((known.key, typed.origin.clone(), origins));
        }
        tables
    }

    /// One table of an array. A key without a default must be given in each.
    fn table<T>(
        &mut self,
        known: &'static Table<T>,
        is_of_site: bool,
        typed: &TypedTable,
        target: &mut T,
    ) -> Origins {
        (known.begin)(target);
        let keys = Keys::of_array(known, is_of_site);
        let origins = self.values(&keys, &typed.values, target);
        let required = known.settings.iter().filter(|setting| setting.default.is_none());
        for setting in required.filter(|setting| origins.get(setting.key).is_none()) {
            self.errors.push(SettingError {
                key: format!("{}{}", keys.prefix(), setting.key),
                value: None,
                why: format!("is missing: {}", lower_first(setting.doc)),
                origin: typed.origin.clone(),
            });
        }
        origins
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

    /// Directories and files that routes name must be there, as a root must.
    fn files_of_routes(
        &mut self,
        routes: &RouteSettings,
        site: &Origin,
        origins: &Origins,
        tables: &Tables,
    ) {
        let aliases = tables.iter().filter(|(table, ..)| *table == "alias");
        for (alias, (_, table, origins)) in routes.aliases.iter().zip(aliases) {
            let origin = origins.get("root").unwrap_or(table);
            self.root("site.alias.root", &alias.root, origin);
        }
        for (status, path) in &routes.error_pages {
            if let Err(why) = error_page(path) {
                let entry = Some(status.to_string());
                let origin = origins.of_entry("error-page", entry).unwrap_or(site).clone();
                self.errors.push(path_error("site.error-page", path, why, origin));
            }
        }
        if routes.user_directories.is_some()
            && let Err(error) = secret_file::open(&routes.user_table, File::options().read(true))
        {
            let origin = origins.get("user-table").or(origins.get("user-directories"));
            let (path, origin) = (&routes.user_table, origin.unwrap_or(site).clone());
            let why = format!("{} cannot be read: {error}", path.display());
            self.errors.push(path_error("site.user-table", path, why, origin));
        }
    }

    /// What answers for whatever is not there must be there itself, in some language at least.
    fn fallback(&mut self, site: &SiteSettings, origins: &Origins) {
        let (Some(path), Some(origin)) = (&site.routes.fallback, origins.get("fallback")) else {
            return;
        };
        // Each of many may have it or not.
        if site.is_many() {
            return;
        }
        // A backend answers there, which may know more paths than the disk.
        if site.answers_by_backend(path) {
            return;
        }
        let path = path.trim_start_matches('/');
        let names = site.routes.languages.iter().map(|language| format!("{path}.{language}"));
        let root = site.root.as_deref().unwrap_or(Path::new(""));
        if [path.to_owned()].into_iter().chain(names).any(|name| root.join(name).is_file()) {
            return;
        }
        let file = root.join(path);
        let why = format!("there is no file {}", file.display());
        self.errors.push(path_error("site.fallback", &file, why, origin.clone()));
    }

    /// Programs that answer must be there, and be executable; of servers it must be said where they
    /// are.
    fn programs(&mut self, site: &SiteSettings, tables: &Tables) {
        let typed = tables.iter().filter(|(table, ..)| *table == "cgi");
        for (cgi, (_, table, origins)) in site.cgi.iter().zip(typed) {
            if let Err((key, why)) = cgi.check() {
                let origin = origins.get(key).unwrap_or(table).clone();
                let key = format!("site.cgi.{key}");
                self.errors.push(SettingError { key, value: None, why, origin });
            }
        }
        for (name, responders) in [("fastcgi", &site.fastcgi), ("scgi", &site.scgi)] {
            let typed = tables.iter().filter(|(table, ..)| *table == name);
            for (responder, (_, table, origins)) in responders.iter().zip(typed) {
                if let Err((key, why)) = responder.check() {
                    let origin = origins.get(key).unwrap_or(table).clone();
                    let key = format!("site.{name}.{key}");
                    self.errors.push(SettingError { key, value: None, why, origin });
                }
            }
        }
    }

    /// Modules must be there, and be made if they are to be at the start.
    fn modules(&mut self, site: &SiteSettings, tables: &Tables) {
        let typed = tables.iter().filter(|(table, ..)| *table == "module");
        for (module, (_, table, origins)) in site.modules.iter().zip(typed) {
            if let Err((key, why)) = module.check() {
                let origin = origins.get(key).unwrap_or(table).clone();
                let key = format!("site.module.{key}");
                self.errors.push(SettingError { key, value: None, why, origin });
            }
        }
    }

    /// A root must be there, be a directory, and be readable now rather than at the first request.
    fn root(&mut self, key: &str, root: &Path, origin: &Origin) {
        let shown = root.display();
        let why = match std::fs::metadata(root) {
            Ok(metadata) if !metadata.is_dir() && *origin == Origin::Directory => format!(
                "{shown} is a file: name the directory to serve, or a configuration file as \
                 --config {shown}"
            ),
            Ok(metadata) if !metadata.is_dir() => format!("{shown} is not a directory"),
            Ok(_) => match std::fs::read_dir(root) {
                Ok(_) => return,
                Err(error) => format!("{shown} cannot be read: {error}"),
            },
            Err(error) => format!("{shown} cannot be found: {error}"),
        };
        // A wrong value has its error already, and the default in its place is not to blame.
        let reported = |error: &SettingError| error.key == key && &error.origin == origin;
        if !self.errors.iter().any(reported) {
            self.errors.push(path_error(key, root, why, origin.clone()));
        }
    }

    /// Users and groups must be there. Only who runs the server needs the right to become them.
    fn user(&mut self, settings: &Settings, origins: &Origins) {
        for (key, name) in [("user", &settings.sandbox.user), ("group", &settings.sandbox.group)] {
            let Some(name) = name else { continue };
            let found = match key {
                "user" => Identity::find(name, None),
                _ => Identity::find("0", Some(name)),
            };
            if let Err(why) = found {
                self.errors.push(wrong(key, name, why, origins));
            }
        }
    }

    fn finish(mut self, mut settings: Settings) -> Result<Settings, Vec<SettingError>> {
        if self.errors.is_empty() {
            settings.running.notes = self.notes;
            return Ok(settings);
        }
        self.errors.sort_by(|a, b| a.origin.order().cmp(&b.origin.order()));
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

fn path_error(key: &str, path: &Path, why: String, origin: Origin) -> SettingError {
    SettingError { key: key.into(), value: Some(path.display().to_string()), why, origin }
}

/// An error page is read when the server starts; what is wrong with it is told before.
fn error_page(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let metadata =
        std::fs::metadata(path).map_err(|error| format!("{shown} cannot be found: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("{shown} is not a file"));
    }
    if metadata.len() > ERROR_PAGE_BYTES_MAX {
        let kib = ERROR_PAGE_BYTES_MAX / 1024;
        return Err(format!("{shown} is longer than {kib}KiB"));
    }
    match file::read_whole(path, ERROR_PAGE_BYTES_MAX) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
    }
}

/// What is wrong with a value that is right by itself.
fn missing(key: &'static str, why: String, origins: &Origins) -> SettingError {
    let origin = origins.get(key).cloned().unwrap_or(Origin::Default);
    SettingError { key: key.into(), value: None, why, origin }
}

/// A sentence within another.
fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

/// A directory by its whole name: programs are told paths, and may have another current directory.
fn absolute(directory: &Path) -> PathBuf {
    match std::env::current_dir() {
        Ok(current) => current.join(directory),
        Err(_) => directory.to_owned(),
    }
}
