//! Values that are right each by itself and contradict each other: something that is written would
//! not be so. What is merely without effect is a warning, and no business of this file.

use flyball_arch::{ACCESS_LOGS_MAX, ALL, ClientAddress, Settings};
use flyball_site::SiteSettings;

use super::acme;
use super::error::SettingError;
use super::origins::Origins;
use super::text::shown_size;

/// What is at fault, and why.
type Fault = (&'static str, String);

/// The contradictions between settings of the server. Nothing blocks.
pub(super) fn of_server(settings: &Settings) -> Vec<Fault> {
    let mut faults = Vec::new();
    clients(settings, &mut faults);
    browsers(settings, &mut faults);
    faults.extend(acme::faults(settings));
    caches(settings, &mut faults);
    // A default gives way to what is written.
    let is_written = |key: &str| settings.given.contains_key(key);
    let (target, head) = (settings.limits.target_bytes_max, settings.limits.head_bytes_max);
    if is_written("limit.target") && target > head {
        faults.push(("limit.target", more(target as u64, "limit.head", head as u64)));
    }
    faults.extend(ALL.iter().filter_map(|architecture| architecture.contradiction(settings)));
    faults
}

/// Somebody must be trusted before anybody is believed.
fn clients(settings: &Settings, faults: &mut Vec<Fault>) {
    let clients = &settings.clients;
    if clients.address != ClientAddress::Peer && clients.trusted.is_empty() {
        let why = "no proxy would be trusted; list them in client.trusted";
        faults.push(("client.address", why.to_owned()));
    }
    if clients.requests_burst.is_some() && clients.requests_per_address.is_none() {
        let why = "limits nothing without limit.requests-per-address; set that too";
        faults.push(("limit.requests-burst", why.to_owned()));
    }
}

/// What is sent in the clear must not tell browsers to come by https alone (RFC 6797, section 7.2).
fn browsers(settings: &Settings, faults: &mut Vec<Fault>) {
    let tls = &settings.tls.of_sites;
    if tls.hsts_s.is_some() && !tls.redirects_http {
        let why = "would be told in the clear too; it needs tls.redirect-http";
        faults.push(("tls.hsts", why.to_owned()));
    }
}

/// Those of the logs, when those of the sites are known: only a file can be put aside.
pub(super) fn of_logs(settings: &Settings) -> Vec<Fault> {
    let (log, mut faults) = (&settings.log, Vec::new());
    let count = settings.access_logs().all().len();
    if count > ACCESS_LOGS_MAX {
        let why = format!("it and those of sites are {count} logs; {ACCESS_LOGS_MAX} are the most");
        faults.push(("access-log", why));
    }
    if settings.log_files().is_empty() {
        let why = "there is no file to put aside: neither access-log nor slow-log is a path";
        let size = log.bytes_max.map(|_| "log.rotate-size");
        let age = log.ms_max.map(|_| "log.rotate-age");
        faults.extend(size.into_iter().chain(age).map(|key| (key, why.to_owned())));
    }
    faults
}

fn caches(settings: &Settings, faults: &mut Vec<Fault>) {
    let caches = &settings.caches;
    if let Some(most) = caches.most_bytes.filter(|most| caches.least_bytes > *most) {
        let why = more(caches.least_bytes, "cache.most", most) + ": no file would be held";
        faults.push(("cache.least", why));
    }
    let hints = &caches.hints;
    for (key, held) in [("cache.pin", &hints.pin), ("cache.keep", &hints.keep)] {
        if let Some(pattern) = hints.never.iter().find(|pattern| held.contains(pattern)) {
            faults.push(("cache.never", format!("{pattern} is in {key} too; take one away")));
        }
    }
}

/// The contradictions between settings of a site. Nothing blocks.
pub(super) fn of_site(site: &SiteSettings, origins: &Origins) -> Option<SettingError> {
    let compress = &site.compress;
    let (whole, streamed) = (compress.max_bytes, compress.stream_bytes_max);
    let (largest, most) = match streamed > whole {
        true => ("compress.stream-max-size", streamed),
        false => ("compress.max-size", whole),
    };
    let origin = origins.get("compress.min-size").filter(|_| compress.min_bytes > most)?;
    Some(SettingError {
        key: "site.compress.min-size".into(),
        value: None,
        why: more(compress.min_bytes, largest, most) + ": no body would be compressed",
        origin: origin.clone(),
    })
}

fn more(bytes: u64, other: &str, most: u64) -> String {
    format!("{} is more than {other}, which is {}", shown_size(bytes), shown_size(most))
}
