//! `[[listener]]`: addresses to listen on, each with what else is said of it. They stand beside
//! those of `listen`, which says the same in short.

use flyball_arch::{AdminPlace, Listen, Settings};
use flyball_site::SiteSettings;
use flyball_site::hosts::Hosts;
use flyball_sys::net::{Address, Endpoint};
use flyball_sys::process;

use super::address::Schemed;
use super::error::{Origin, SettingError};
use super::kind::Kind;
use super::origins::Origins;
use super::running::{MODE_FORM, mode};
use super::table::{Setting, Table, Word};
use super::text::{is_host, is_token};

/// The key of addresses in short.
pub(super) const LISTEN: &str = "listen";

/// What only a Unix-domain socket has.
pub(super) const OF_SOCKETS: [&str; 2] = ["mode", "group"];

/// The key of the group of a socket, as what it lacks is told.
const GROUP: &str = "listener.group";

/// What was written in the `[[listener]]` tables, one for each.
pub type Listeners = Vec<Listener>;

/// What was written in one `[[listener]]` table.
#[derive(Debug, Default)]
pub struct Listener {
    at: Option<Schemed>,
    /// `None` where the scheme of the address says it.
    tls: Option<bool>,
    hosts: Vec<String>,
    mode: Option<u32>,
    group: Option<String>,
}

/// The `[[listener]]` tables.
pub static LISTENERS: Table<Listeners> = Table {
    key: "listener",
    doc: "Addresses to listen on, beside those of `listen`",
    more: "Each table is one address. The same address cannot be in `listen` too.",
    begin: |all| all.push(Listener::default()),
    settings: &[
        Setting {
            key: "address",
            kind: Kind::Address { set: |all, at| last(all).at = Some(at) },
            doc: "The address, in the forms of `listen`",
            ..Setting::ROW
        },
        Setting {
            key: "tls",
            kind: Kind::Switch { set: |all, on| last(all).tls = Some(on) },
            word: Some(Word { name: "auto", set: |all| last(all).tls = None }),
            default: Some("auto"),
            doc: "Whether clients speak TLS there",
            more: "`auto` goes by the address: with `https://` before it they do.",
            ..Setting::ROW
        },
        Setting {
            key: "hosts",
            kind: Kind::Texts {
                form: "a host such as example.org, *.example.org, [::1] or *",
                empty: false,
                valid: is_host,
                set: |all, hosts| {
                    // All of them are no list.
                    let is_all = hosts.iter().any(|host| host == "*");
                    let hosts = if is_all { Vec::new() } else { hosts };
                    last(all).hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
                },
            },
            default: Some("*"),
            doc: "Hosts that are served there, as sites have them",
            more: "A request for another host is answered by 421, and over TLS its name is one \
                   that no site has (`tls.unknown-name`). A request that names no host is for the \
                   site of the first, and so is the certificate of a client that asks for no name. \
                   Where the first is led to `https` (`tls.redirect-http`), a request that names \
                   none is answered by 421: there is no name to lead it to. Some site must answer \
                   to each. `*` is all hosts.",
            source: "RFC 9110 section 7.4",
            ..Setting::ROW
        },
        Setting {
            key: "mode",
            kind: Kind::Text {
                form: MODE_FORM,
                valid: |text| mode(text).is_some(),
                set: |all, text| last(all).mode = mode(&text),
            },
            default: Some("0660"),
            doc: "Mode of a Unix-domain socket",
            more: "Who may write to the socket may connect.",
            source: "unix(7)",
            ..Setting::ROW
        },
        Setting {
            key: "group",
            kind: Kind::Text {
                form: "the name or the number of a group",
                valid: is_token,
                set: |all, name| last(all).group = Some(name),
            },
            word: Some(Word { name: "own", set: |all| last(all).group = None }),
            default: Some("own"),
            doc: "Group of a Unix-domain socket",
            more: "`own` is that of the server. With the default `mode` its members may connect.",
            source: "chown(2)",
            ..Setting::ROW
        },
    ],
};

/// The table that was begun last.
fn last(all: &mut Listeners) -> &mut Listener {
    if all.is_empty() {
        all.push(Listener::default());
    }
    all.last_mut().expect("there is one")
}

/// Where addresses are written.
pub(super) struct Place {
    key: &'static str,
    origin: Origin,
    /// Where the hosts are that are served there.
    hosts: Origin,
    /// Where the group of a socket is.
    group: Origin,
}

impl Place {
    /// In `listen`.
    pub(super) fn of_listen(origins: &Origins) -> Place {
        let origin = origins.get(LISTEN).cloned().unwrap_or(Origin::Default);
        Place { key: LISTEN, hosts: origin.clone(), group: origin.clone(), origin }
    }

    /// In a `[[listener]]` table that begins at `table`.
    pub(super) fn of_table(table: &Origin, origins: &Origins) -> Place {
        let origin = origins.get("address").unwrap_or(table).clone();
        Place {
            key: "listener.address",
            origin,
            hosts: origins.get("hosts").unwrap_or(table).clone(),
            group: origins.get("group").unwrap_or(table).clone(),
        }
    }

    /// What is not there of the machine that this address needs: its group, or its directory.
    pub(super) fn lacks(&self, key: &'static str, why: String) -> SettingError {
        let (key, origin) = match key {
            GROUP => (GROUP, &self.group),
            _ => (self.key, &self.origin),
        };
        SettingError { key: key.to_owned(), value: None, why, origin: origin.clone() }
    }

    fn error(&self, address: &Endpoint, why: String) -> SettingError {
        let (key, value) = (self.key.to_owned(), Some(address.to_string()));
        SettingError { key, value, why, origin: self.origin.clone() }
    }
}

impl Listener {
    /// The address and what is spoken there; `None` where no address was given, which is told
    /// elsewhere.
    ///
    /// # Errors
    /// That the two contradict each other; `table` is where it begins.
    pub(super) fn listen(
        &self,
        table: &Origin,
        origins: &Origins,
    ) -> Result<Option<Listen>, SettingError> {
        let Some(Schemed { tls, address }) = self.at.clone() else { return Ok(None) };
        let guards = OF_SOCKETS.into_iter().find_map(|key| Some((key, origins.get(key)?)));
        if let (Some((key, origin)), Endpoint::Tcp(_)) = (guards, &address) {
            return Err(SettingError {
                key: format!("listener.{key}"),
                value: None,
                why: format!("is that of a socket in the file system, which {address} is not"),
                origin: origin.clone(),
            });
        }
        if let (Some(scheme), Some(said)) = (tls, self.tls)
            && scheme != said
        {
            let scheme = if scheme { "https" } else { "http" };
            return Err(SettingError {
                key: "listener.tls".to_owned(),
                value: Some(said.to_string()),
                why: format!("is {said}, but the address has {scheme}:// before it"),
                origin: origins.get("tls").unwrap_or(table).clone(),
            });
        }
        let (tls, hosts) = (self.tls.or(tls).unwrap_or(false), self.hosts.clone());
        let listen = Listen { tls, hosts, group: self.group.clone(), ..address.into() };
        Ok(Some(Listen { mode: self.mode.unwrap_or(listen.mode), ..listen }))
    }
}

/// Addresses that are written twice, the places of all being given: one cannot be bound twice.
/// Port 0 is a new port each time.
pub(super) fn faults(
    settings: &Settings,
    places: &[Place],
    origins: &Origins,
) -> Vec<SettingError> {
    let mut faults = Vec::new();
    let all: Vec<(&Endpoint, &Place)> =
        settings.listen.iter().map(|listen| &listen.address).zip(places).collect();
    let mut shares_ports = None;
    for (at, (address, place)) in all.iter().enumerate() {
        let known = all[..at].iter().find(|(known, _)| known == address && !is_any(address));
        let Some((_, first)) = known else {
            let other = all[..at].iter().find(|(known, _)| overlap(known, address));
            if let Some((known, first)) = other
                && !*shares_ports.get_or_insert_with(|| do_share_ports(settings))
            {
                let why = format!(
                    "{address} overlaps with {known} of `{}`: {} has one socket for each, and only \
                     one can have the port",
                    first.key, settings.arch
                );
                faults.push(place.error(address, why));
            }
            continue;
        };
        let why = match first.key == LISTEN && place.key == LISTEN {
            true => format!("{address} is listed twice"),
            false => {
                format!("{address} is listened on already, by {} at {}", first.key, first.origin)
            }
        };
        faults.push(place.error(address, why));
    }
    faults.extend(faults_of_admin(settings, &all, origins));
    faults
}

/// Places of `admin` that are listed twice, or that are listened on for clients too.
fn faults_of_admin(
    settings: &Settings,
    listens: &[(&Endpoint, &Place)],
    origins: &Origins,
) -> Vec<SettingError> {
    let origin = origins.get("admin").cloned().unwrap_or(Origin::Default);
    let fault = |value: String, why: String| {
        let (key, value, origin) = ("admin".to_owned(), Some(value), origin.clone());
        SettingError { key, value, why, origin }
    };
    let mut faults = Vec::new();
    for (at, place) in settings.admin.iter().enumerate() {
        let AdminPlace::At(admin) = place else {
            if settings.admin[..at].contains(place) {
                faults.push(fault("auto".to_owned(), "auto is listed twice".to_owned()));
            }
            continue;
        };
        if is_any(admin) {
            continue;
        }
        let met = |address: &Endpoint| address == admin || overlap(address, admin);
        let before = settings.admin[..at].iter().filter_map(|place| match place {
            AdminPlace::At(earlier) => Some(earlier),
            AdminPlace::Own(_) => None,
        });
        if let Some(earlier) = before.into_iter().find(|earlier| met(earlier)) {
            let why = match earlier == admin {
                true => format!("{admin} is listed twice"),
                false => format!("{admin} and {earlier} overlap"),
            };
            faults.push(fault(admin.to_string(), why));
        } else if let Some((address, place)) = listens.iter().find(|(address, _)| met(address)) {
            let why = match *address == admin {
                true => format!("{admin} is an address of `{}` too", place.key),
                false => format!("{admin} and {address} of `{}` overlap", place.key),
            };
            faults.push(fault(admin.to_string(), why));
        }
    }
    faults
}

/// Whether the kernel chooses the port.
fn is_any(endpoint: &Endpoint) -> bool {
    endpoint.tcp().is_some_and(|address| address.port() == 0)
}

/// Whether one of two addresses is all interfaces, the other among them, at the same port. `[::]`
/// is those of IPv4 too.
fn overlap(one: &Endpoint, other: &Endpoint) -> bool {
    let (Some(one), Some(other)) = (one.tcp(), other.tcp()) else { return false };
    let covers =
        |all: Address, one: Address| all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4());
    one.port() == other.port() && one.port() != 0 && (covers(one, other) || covers(other, one))
}

/// Whether each address has several sockets, which share its port (SO_REUSEPORT), so that others
/// may overlap with it. Blocks on the kernel's file systems.
fn do_share_ports(settings: &Settings) -> bool {
    let mut settings = settings.clone();
    settings.cpus.get_or_insert_with(process::cpu_allowance);
    // An architecture that is none is told elsewhere.
    flyball_arch::find(&settings.arch).is_none_or(|arch| arch.sockets_wanted(&settings) > 1)
}

/// Sites by host, with what listeners serve of them.
pub(super) fn hosts(sites: &[SiteSettings], settings: &Settings) -> Hosts {
    let mut hosts = Hosts::new(sites);
    hosts.serve_at(&settings.lists_of_hosts());
    hosts
}

/// Whether clients speak TLS where a site is served.
pub(super) fn speak_tls(settings: &Settings, hosts: &Hosts, site: usize) -> bool {
    settings.listen.iter().filter(|listen| listen.tls).any(|listen| {
        let served = hosts.sites_at(settings.number_of_hosts(listen));
        served.is_none_or(|sites| sites.contains(&site))
    })
}

/// Hosts of listeners that no site answers to, if none is for directories, or by TLS none with a
/// certificate; the sites are known.
pub(super) fn faults_of_hosts(settings: &Settings, places: &[Place]) -> Vec<SettingError> {
    let hosts = hosts(&settings.sites, settings);
    let mut faults = Vec::new();
    for (listen, place) in settings.listen.iter().zip(places) {
        let mut error = |host: Option<&String>, why: String| {
            let (key, value) = ("listener.hosts".to_owned(), host.cloned());
            faults.push(SettingError { key, value, why, origin: place.hosts.clone() });
        };
        let may_come = settings.sites.iter().any(SiteSettings::is_many);
        let unknown = |host: &&String| !may_come && hosts.answer_to(host).is_empty();
        for host in listen.hosts.iter().filter(unknown) {
            error(Some(host), format!("no site answers to {host}"));
        }
        let served = hosts.sites_at(settings.number_of_hosts(listen)).unwrap_or_default();
        let has_certificate = |site: &usize| settings.sites[*site].tls.has_certificate();
        if listen.tls && !served.is_empty() && !served.iter().any(has_certificate) {
            let why = "clients speak TLS there, and no site of these hosts has a certificate";
            error(None, why.to_owned());
        }
    }
    faults
}
