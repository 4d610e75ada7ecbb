//! `flyball serve`: binds, says where, and serves until told to stop.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use flyball::configuration::CommandLine;
use flyball::settings::Typed;
use flyball_arch::{Listen, Settings};
use flyball_server::{Server, root_path};
use flyball_site::{CertificateSource, SiteSettings, Spread};
use flyball_sys::error_log::{self, Level};
use flyball_sys::net::Endpoint;
use flyball_sys::say;

/// Exit code when the server could not start.
const FAILED: u8 = 1;

/// `arguments` are those of the process, with the subcommand.
pub(crate) fn run(typed: Typed, arguments: Vec<OsString>) -> ExitCode {
    let configuration = CommandLine::new(arguments, typed);
    let settings = match configuration.settings() {
        Ok(settings) => settings,
        Err(failure) => return failure.report(),
    };
    match serve(settings, configuration) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("flyball: {message}");
            ExitCode::from(FAILED)
        }
    }
}

fn serve(settings: Settings, configuration: CommandLine) -> Result<(), String> {
    let architecture = flyball_arch::find(&settings.arch)
        .ok_or_else(|| format!("there is no architecture {}", settings.arch))?;
    let are_told = |site: &&SiteSettings| !matches!(site.spread, Spread::Of(_));
    let served: Vec<String> = settings.sites.iter().filter(are_told).map(served).collect();
    let own = OwnAuthority::of(&settings);
    error_log::set_level(settings.log.level);
    let server = Server::bind(architecture, settings)?;
    for warning in server.warnings() {
        say!(Level::Warn, "warning: {warning}");
    }
    super::print(&banner(&server, architecture.name(), &served, own.as_ref()));
    // A connection cut off at the drain deadline was told so by the close; stopping went well.
    server.configured_by(Box::new(configuration)).run().map(drop).map_err(|error| error.to_string())
}

/// What is served, and where, as something to click on.
fn banner(
    server: &Server,
    architecture: &str,
    served: &[String],
    own: Option<&OwnAuthority>,
) -> String {
    let mut lines: Vec<String> = served.iter().map(|what| format!("serving {what}")).collect();
    lines.extend(server.listens().iter().map(at));
    lines.extend(server.admin_endpoints().map(|endpoint| match endpoint {
        Endpoint::Tcp(address) => format!("  status at {}status", url(&(*address).into())),
        Endpoint::Unix(path) => format!("  status on unix:{}", path.display()),
    }));
    if let Some(OwnAuthority { root, serves_localhost }) = own {
        let is_local =
            |listen: &Listen| *serves_localhost && listen.tls && has_localhost(&listen.hosts);
        let listens = server.listens().into_iter().filter(is_local);
        let names = listens.filter_map(|listen| localhost(&listen));
        lines.extend(names.map(|name| format!("  as {name}")));
        let root = root.display();
        lines.push(format!("  with certificates of this machine's own authority, {root}"));
        lines.push(format!("  which it trusts after: sudo flyball trust {root}"));
    }
    let workers = server.workers();
    let noun = if workers == 1 { "worker" } else { "workers" };
    let user = server.user().map(|user| format!(" as {user}")).unwrap_or_default();
    lines.push(format!("  by {architecture} with {workers} {noun}{user}; Ctrl-C stops it\n"));
    lines.join("\n")
}

/// Whether `localhost` is among the hosts of a listener or a site; none is all.
fn has_localhost(hosts: &[String]) -> bool {
    hosts.is_empty() || hosts.iter().any(|host| host == "*" || host == "localhost")
}

/// This machine's own authority, of which a site has a certificate.
struct OwnAuthority {
    /// Its own certificate.
    root: PathBuf,
    /// Whether such a site answers to `localhost`.
    serves_localhost: bool,
}

impl OwnAuthority {
    fn of(settings: &Settings) -> Option<OwnAuthority> {
        let is_internal = |site: &&SiteSettings| site.tls.source == CertificateSource::Internal;
        let sites: Vec<&SiteSettings> = settings.sites.iter().filter(is_internal).collect();
        let serves_localhost = sites.iter().any(|site| has_localhost(&site.hosts));
        let root = (!sites.is_empty()).then(|| root_path(&settings.tls.internal))?;
        Some(OwnAuthority { root, serves_localhost })
    }
}

/// An address by the name that its certificate has and a browser shows, unless it is shown so.
fn localhost(listen: &Listen) -> Option<String> {
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, listen.address.tcp()?.port()));
    let name = url(&Listen { tls: true, ..any.into() });
    (name != url(listen)).then_some(name)
}

/// An address, and the hosts that are served there alone.
fn at(listen: &Listen) -> String {
    let hosts = match listen.hosts.as_slice() {
        [] => String::new(),
        hosts => format!(" for {}", hosts.join(", ")),
    };
    format!("  at {}{hosts}", url(listen))
}

/// What there is of a site.
fn served(site: &SiteSettings) -> String {
    if let Spread::Each(roots) = &site.spread {
        return format!("each host that is a directory of {}", roots.base.display());
    }
    match &site.root {
        Some(root) => root.display().to_string(),
        None => format!("redirects of {}", site.hosts.join(", ")),
    }
}

/// An address as something to click on; one that stands for all of them shows as localhost.
fn url(Listen { address, tls, .. }: &Listen) -> String {
    let (scheme, usual) = if *tls { ("https", 443) } else { ("http", 80) };
    let Endpoint::Tcp(address) = address else {
        let scheme = if *tls { "https://" } else { "" };
        return format!("{scheme}{address}");
    };
    let host = match address.ip() {
        ip if ip.is_unspecified() => "localhost".to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    match address.port() {
        port if port == usual => format!("{scheme}://{host}/"),
        port => format!("{scheme}://{host}:{port}/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_once_by_the_name_of_its_certificate() {
        let name = |address: &str| {
            let address: SocketAddr = address.parse().unwrap();
            localhost(&Listen { tls: true, ..address.into() })
        };
        assert_eq!(name("127.0.0.1:8443").as_deref(), Some("https://localhost:8443/"));
        assert_eq!(name("127.0.0.1:443").as_deref(), Some("https://localhost/"));
        assert_eq!(name("[::]:9443"), None);
        assert_eq!(name("0.0.0.0:9443"), None);
    }
}
