//! What is not as it was asked for, and does not keep a server from running: told when it starts,
//! and by `flyball check`.

use std::path::Path;

use flyball_arch::descriptors::connections_that_fit;
use flyball_arch::settings::{AccessLog, SendMode, Settings};
use flyball_arch::{Architecture, registry};
use flyball_site::hosts::Hosts;
use flyball_site::{CachePolicy, SiteSettings, Sites, Spread};
use flyball_sys::machine::sysctl_number;

use crate::sandbox::{self, Confinement};
use crate::{acme, spool};

/// Hosts that are told of one by one.
const CLOSED_TOLD_MAX: usize = 3;

/// All warnings about settings on this machine, the sites opened.
pub(crate) fn all(
    architecture: &'static dyn Architecture,
    settings: &Settings,
    sites: &Sites,
    confinement: &Confinement,
) -> Vec<String> {
    let mut warnings = settings.running.notes.clone();
    warnings.extend(registry::unused_settings(architecture, settings));
    warnings.extend(idle(settings));
    warnings.extend(idle_of_sites(settings));
    warnings.extend(settings.running.unserved.iter().cloned());
    warnings.extend(closed(sites));
    warnings.extend(sites.warnings(&confinement.rights()));
    warnings.extend(shown(settings, sites));
    warnings.extend(spool::warning(settings, sites));
    warnings.extend(acme::warning(settings));
    warnings.extend(acme::profile_warning(settings));
    warnings.extend(confinement.warnings(sandbox::uses_ring(architecture, settings), settings));
    warnings.extend(cuts(settings).iter().map(|cut| {
        let Cut { key, asked, most, limit, unit } = cut;
        format!("{key} is {asked}{unit}, but {limit} cuts it to {most}{unit}")
    }));
    warnings.extend(architecture.warnings(settings));
    let room = connections_that_fit(settings);
    let is_used = !registry::is_unused(architecture, "connections.max");
    if let Some(most) = settings.max_connections.filter(|most| is_used && *most > room) {
        warnings.push(format!(
            "connections.max is {most}, but the descriptor limit leaves room for {room}"
        ));
    }
    warnings
}

/// Hosts that are not served although their directories are there: the first of them, and how many
/// more there are.
fn closed(sites: &Sites) -> Vec<String> {
    let all = sites.closed();
    let told = |why: &String| format!("site.root: {why}; this host is not served");
    let mut warnings: Vec<String> = all.iter().take(CLOSED_TOLD_MAX).map(told).collect();
    let more = all.len().saturating_sub(CLOSED_TOLD_MAX);
    if more > 0 {
        warnings.push(format!("site.root: {more} more hosts are not served"));
    }
    warnings
}

/// Settings that say something which only another one gives a meaning to.
fn idle(settings: &Settings) -> Vec<String> {
    let Settings { caches, log, running, tls, .. } = settings;
    let (hints, default) = (&caches.hints, Settings::default());
    let is_hinted = caches.policy == CachePolicy::Hinted;
    let is_mapped = settings.send == SendMode::Mapped;
    let rotates = log.bytes_max.is_some() || log.ms_max.is_some();
    let has_socket = settings.admin_directory().is_some()
        || settings.admin_endpoints().any(|endpoint| endpoint.unix().is_some());
    let (hinted, mapped) = ("cache.policy = \"hinted\"", "send.mode = \"mapped\"");
    let (pinned, socket) = ("pin = true", "admin = \"unix:PATH\"");
    let (of_sites, is_secure) = (&tls.of_sites, settings.speaks_tls());
    [
        ("cache.pin", !hints.pin.is_empty(), is_hinted, hinted),
        ("cache.keep", !hints.keep.is_empty(), is_hinted, hinted),
        ("cache.never", !hints.never.is_empty(), is_hinted, hinted),
        ("cache.advice", settings.mapped_advice != default.mapped_advice, is_mapped, mapped),
        ("cache.mapped", settings.mapped_bytes_max != default.mapped_bytes_max, is_mapped, mapped),
        ("cache.chunk", settings.chunk_bytes != default.chunk_bytes, is_mapped, mapped),
        ("pin-cpus", !settings.pin_cpus.is_empty(), settings.pin, pinned),
        ("accept.incoming-cpu", settings.incoming_cpu, settings.pin, pinned),
        ("admin-mode", running.admin_mode != default.running.admin_mode, has_socket, socket),
        ("admin-group", running.admin_group.is_some(), has_socket, socket),
        ("[acme]", tls.acme.is_written, is_secure, SECURE),
        ("tls.minimum", of_sites.only_1_3, is_secure, SECURE),
        ("tls.unknown-name", tls.rejects_unknown, is_secure, SECURE),
        ("tls.redirect-http", !of_sites.redirects_http, is_secure, SECURE),
        ("tls.hsts", of_sites.hsts_s.is_some(), is_secure, SECURE),
        ("tls.tickets", tls.tickets != default.tls.tickets, is_secure, SECURE),
        ("tls.watch", tls.watch_ms != default.tls.watch_ms, is_secure, SECURE),
        ("log.keep", log.keep != default.log.keep, rotates, "log.rotate-size or log.rotate-age"),
        (
            "log.slow-threshold",
            log.slow_ms != default.log.slow_ms,
            log.slow != AccessLog::Off,
            "slow-log",
        ),
    ]
    .into_iter()
    .filter(|(_, says_something, has_meaning, _)| *says_something && !has_meaning)
    .map(|(key, _, _, other)| format!("`{key}` has a meaning only with {other}"))
    .collect()
}

/// The same of the settings of sites.
fn idle_of_sites(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    for site in &settings.sites {
        let (routes, default) = (&site.routes, flyball_site::routes::RouteSettings::default());
        for (key, says_something) in [
            ("site.user-table", routes.user_table != default.user_table),
            ("site.user-id-min", routes.user_id_min != default.user_id_min),
        ] {
            if says_something && routes.user_directories.is_none() {
                warnings.push(format!("`{key}` has a meaning only with site.user-directories"));
            }
        }
    }
    let mut hosts = Hosts::new(&settings.sites);
    hosts.serve_at(&settings.lists_of_hosts());
    let all: Vec<_> = settings.listen.iter().map(|at| settings.number_of_hosts(at)).collect();
    for (number, site) in settings.sites.iter().enumerate() {
        let is_served = |at: &u16| hosts.sites_at(*at).is_none_or(|sites| sites.contains(&number));
        let is_left_out = !all.is_empty() && !all.iter().any(is_served);
        if is_left_out && !site.is_many() && !matches!(site.spread, Spread::Of(_)) {
            let named = site.hosts.join(", ");
            warnings.push(format!("`listener.hosts`: no listener serves the site of {named}"));
        }
    }
    warnings.extend(without_directory(settings, &hosts));
    let has_certificate = settings.sites.iter().any(|site| site.tls.has_certificate());
    if has_certificate && !settings.speaks_tls() {
        warnings.push(format!("`site.certificate` has a meaning only with {SECURE}"));
    }
    warnings
}

/// Hosts of listeners whose directories are not there yet.
fn without_directory(settings: &Settings, hosts: &Hosts) -> Vec<String> {
    if !settings.sites.iter().any(SiteSettings::is_many) {
        return Vec::new();
    }
    let named = settings.listen.iter().flat_map(|listen| &listen.hosts);
    let missing = named.filter(|host| hosts.answer_to(host).is_empty());
    missing.map(|host| format!("`listener.hosts`: there is no directory for {host}")).collect()
}

/// What gives a meaning to settings of TLS.
const SECURE: &str = "an address in `listen` that has https:// before it, or a `[[listener]]` with \
                      tls = true";

/// Files that the server writes, and the one that it is configured by, where clients get them.
fn shown(settings: &Settings, sites: &Sites) -> Vec<String> {
    let spooled = settings.running.spool.directory.as_ref().map(|directory| directory.join("x"));
    let pid_file = settings.running.pid_file.clone();
    let written = [("pid-file", pid_file), ("spool.directory", spooled)];
    let written = written.into_iter().filter_map(|(key, file)| Some((key, file?)));
    let written = settings.log_files().into_iter().chain(written);
    let lies = |file: &Path| {
        let url = sites.shows(file)?;
        Some(format!("it lies beneath a root, and clients get it at {url}"))
    };
    let told = written.filter_map(|(key, file)| Some(settings.blame(key, lies(&file)?)));
    let own = settings.running.files.iter();
    let own = own.filter_map(|file| Some(format!("{}: {}", file.display(), lies(file)?)));
    told.chain(own).collect()
}

/// What the kernel gives less of than was asked for.
pub(crate) struct Cut {
    pub(crate) key: &'static str,
    pub(crate) asked: u64,
    pub(crate) most: u64,
    pub(crate) limit: &'static str,
    pub(crate) unit: &'static str,
}

/// What it will not give to the sockets.
pub(crate) fn cuts(settings: &Settings) -> Vec<Cut> {
    let Settings { backlog, send_buffer, receive_buffer, .. } = *settings;
    let cut = |(key, asked, limit, path, unit): (_, Option<u32>, _, &str, _)| {
        let (asked, most) = (u64::from(asked?), sysctl_number(path)?);
        (asked > most).then_some(Cut { key, asked, most, limit, unit })
    };
    [
        ("accept.backlog", Some(backlog), "net.core.somaxconn", "net/core/somaxconn", ""),
        ("send.buffer", send_buffer, "net.core.wmem_max", "net/core/wmem_max", "B"),
        ("receive.buffer", receive_buffer, "net.core.rmem_max", "net/core/rmem_max", "B"),
    ]
    .into_iter()
    .filter_map(cut)
    .collect()
}
