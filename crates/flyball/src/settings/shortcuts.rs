//! `flyball serve DIR` with `--https` or `--domain`: a whole HTTPS site in one line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use flyball_acme::Name;
use flyball_arch::{Listen, Settings};
use flyball_server::USERS;
use flyball_site::hosts::without_brackets;
use flyball_site::{CertificateSource, SiteSettings};
use flyball_sys::process;
use flyball_sys::sandbox::Identity;

use super::error::{Origin, SettingError};
use super::resolve::{PORT, PORT_TRIES};
use super::typed::Typed;
use super::{certificates, listeners};

/// The port on 127.0.0.1 of `--https`.
const HTTPS_PORT: u16 = 8443;

/// The ports of `--domain`: in the clear, and by TLS.
const PORTS: [(u16, bool); 2] = [(80, false), (443, true)];

/// The names of the two, for messages.
const HTTPS: &str = "https";
const DOMAIN: &str = "domain";

/// The key of names that a site answers to which only this machine reaches.
const ADMIN_HOSTS: &str = "admin-hosts";

/// Where it is listened if no address is given, and what is spoken there.
pub(super) fn listen(typed: &Typed, settings: &mut Settings) {
    if typed.is_https {
        settings.listen.iter_mut().for_each(|listen| listen.tls = true);
    }
    if !settings.listen.is_empty() {
        return;
    }
    if !typed.domains.is_empty() {
        let everywhere = |(port, tls)| Listen { tls, ..at(Ipv6Addr::UNSPECIFIED, port) };
        settings.listen = PORTS.map(everywhere).to_vec();
        return;
    }
    let port = if typed.is_https { HTTPS_PORT } else { PORT };
    settings.listen = vec![Listen { tls: typed.is_https, ..at(Ipv4Addr::LOCALHOST, port) }];
    settings.running.port_tries = PORT_TRIES;
}

fn at(ip: impl Into<IpAddr>, port: u16) -> Listen {
    SocketAddr::new(ip.into(), port).into()
}

/// What else follows for the server: who names domains serves the internet, and agrees to the terms
/// of the authority.
pub(super) fn server(typed: &Typed, settings: &mut Settings) {
    settings.tls.acme.is_written |= !typed.domains.is_empty();
    settings.sandbox.by_file |= !typed.domains.is_empty();
}

/// The one site, as they want it.
pub(super) fn site(typed: &Typed, settings: &Settings, site: &mut SiteSettings) {
    if !typed.domains.is_empty() {
        site.hosts = typed.domains.iter().map(|name| name.to_ascii_lowercase()).collect();
        site.listing = false;
    }
    let hosts = listeners::hosts(std::slice::from_ref(site), settings);
    let speaks_tls = listeners::speak_tls(settings, &hosts, 0);
    match typed.is_https {
        true => site.tls.source = CertificateSource::Internal,
        false => certificates::choose(site, settings, speaks_tls),
    }
    certificates::tell_browsers(site, speaks_tls);
}

/// What is wrong with them, for this site.
pub(super) fn faults(typed: &Typed, settings: &Settings, site: &SiteSettings) -> Vec<SettingError> {
    let fault = |name: &'static str, value: Option<&String>, why: String| SettingError {
        key: name.into(),
        value: value.cloned(),
        why,
        origin: Origin::Flag(name),
    };
    let mut faults = Vec::new();
    for name in &typed.domains {
        let why = match Name::parse(without_brackets(name)) {
            Err(why) => Some(why),
            Ok(known) if known.is_wildcard() => {
                Some("a wildcard needs dns-01, and a configuration file".to_owned())
            }
            Ok(_) => None,
        };
        faults.extend(why.map(|why| fault(DOMAIN, Some(name), why)));
    }
    if !faults.is_empty() || typed.domains.is_empty() && !typed.is_https {
        return faults;
    }
    let name = if typed.is_https { HTTPS } else { DOMAIN };
    if !settings.speaks_tls() {
        let why = "no address of --listen speaks TLS: write https:// before one";
        faults.push(fault(name, None, why.to_owned()));
        return faults;
    }
    let why = match site.tls.source {
        CertificateSource::Acme => certificates::no_acme(site, settings),
        CertificateSource::Internal => {
            faults.extend(not_internal(typed, site));
            None
        }
        _ => Some(match certificates::not_public(site, settings) {
            Some(why) => format!("{why}; --set acme.directory=URL names one of your own"),
            None => "some hosts are public and others are not; serve them apart".to_owned(),
        }),
    };
    faults.extend(why.map(|why| fault(name, None, why)));
    let sandbox = &settings.sandbox;
    let becomes = sandbox.user.is_some() || sandbox.group.is_some() || !process::is_root();
    if name == DOMAIN && !becomes && USERS.iter().all(|user| Identity::find(user, None).is_err()) {
        let why = format!(
            "workers need a user of their own, and there is neither {}: make one \
             (useradd --system flyball), or name one with --set user=NAME",
            USERS.join(" nor ")
        );
        faults.push(fault(name, None, why));
    }
    faults
}

/// That the authority of this machine cannot vouch for a host of `--https`, which is a name of
/// `admin-hosts` if one was given.
fn not_internal(typed: &Typed, site: &SiteSettings) -> Option<SettingError> {
    let (host, why) = certificates::not_internal(site)?;
    let written = typed.values.iter().rfind(|written| written.key == ADMIN_HOSTS);
    let (key, origin) = match written {
        Some(written) => (ADMIN_HOSTS, written.origin.clone()),
        None => (HTTPS, Origin::Flag(HTTPS)),
    };
    let why = format!("--{HTTPS} serves these hosts too: {why}");
    Some(SettingError { key: key.into(), value: Some(host.clone()), why, origin })
}
