//! What is loaded: a URL and the addresses behind it.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use flyball_sys::clock;
use flyball_tls::{Client, Trust};

use crate::dial::Peer;
use crate::options::Tls;

/// A URL of http or https, resolved.
#[derive(Clone, Debug)]
pub struct Target {
    /// As it was written.
    pub url: String,
    /// The value of `Host`.
    pub authority: String,
    /// The path and query that are asked for.
    pub path: String,
    /// Where connections go, in turn.
    pub addresses: Vec<SocketAddr>,
    /// What TLS is spoken by; `None` is in the clear.
    pub client: Option<Client>,
}

impl Target {
    /// Reads a URL and resolves its host. Blocks while the system's resolver does, and on the disk.
    ///
    /// # Errors
    /// What is wrong with the URL, that its host is not known, or what is wrong with how TLS is to
    /// be spoken.
    pub fn resolve(url: &str, tls: &Tls) -> Result<Target, String> {
        let Named { is_secure, authority, path, host, port } = named(url, tls)?;
        let found = (host.as_str(), port).to_socket_addrs();
        let mut addresses: Vec<SocketAddr> = match found {
            Ok(found) => found.collect(),
            Err(error) => return Err(format!("{url}: the host {host} is not known: {error}")),
        };
        // Of a name with addresses of both kinds one is used: which of them answers differs.
        if let Some(first) = addresses.first().copied() {
            addresses.retain(|address| address.is_ipv4() == first.is_ipv4());
        }
        addresses.dedup();
        if addresses.is_empty() {
            return Err(format!("{url}: the host {host} has no address"));
        }
        let client = if is_secure { Some(client(&host, tls)?) } else { None };
        Ok(Target { url: url.into(), authority, path, addresses, client })
    }

    /// Whether a URL is one that can be loaded, its host not being looked up.
    ///
    /// # Errors
    /// What is wrong with it, or which option has no effect on it.
    pub fn check(url: &str, tls: &Tls) -> Result<(), String> {
        named(url, tls).map(|_| ())
    }

    /// What is asked outside of the run: the first of its addresses.
    pub(crate) fn peer(&self) -> Option<Peer<'_>> {
        let address = *self.addresses.first()?;
        Some(Peer { address, client: self.client.as_ref() })
    }

    /// True when every address is of this machine, whichever of its interfaces has it.
    pub fn is_local(&self) -> bool {
        self.addresses.iter().all(|address| is_ours(address.ip()))
    }

    /// True when every address is of this machine's loopback.
    pub fn is_loopback(&self) -> bool {
        self.addresses.iter().all(|address| address.ip().is_loopback())
    }
}

/// Whether an address is of this machine: only such a one can be bound to.
pub(crate) fn is_ours(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// What sessions with a host have in common.
fn client(host: &str, tls: &Tls) -> Result<Client, String> {
    let trust = match &tls.ca {
        _ if tls.insecure => Trust::Anyone,
        Some(file) => fs::read(file)
            .map_err(|error| error.to_string())
            .and_then(|pem| Trust::from_pem(&pem))
            .map_err(|why| format!("--ca {}: {why}", file.display()))?,
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            Trust::Roots(found.iter().map(|root| root.to_vec()).collect())
        }
    };
    let now_s = clock::unix_ms() / 1000;
    let client = Client::new(host, &trust, tls.group.as_deref(), now_s);
    client.map_err(|why| match (&trust, &tls.group) {
        (Trust::Roots(roots), _) if roots.is_empty() => {
            format!("{why}; name what is trusted by --ca, or use --insecure")
        }
        (_, Some(_)) => format!("--tls-group: {why}"),
        _ => why,
    })
}

/// What a URL names.
struct Named {
    is_secure: bool,
    authority: String,
    path: String,
    host: String,
    port: u16,
}

fn named(url: &str, tls: &Tls) -> Result<Named, String> {
    let (is_secure, authority, path) = split(url)?;
    let (host, port) = host_and_port(&authority, if is_secure { 443 } else { 80 })?;
    let of_tls = [
        ("--insecure", tls.insecure),
        ("--ca", tls.ca.is_some()),
        ("--tls-resume", tls.resume > 0.0),
        ("--tls-group", tls.group.is_some()),
    ];
    match of_tls.iter().find(|(_, is_given)| *is_given && !is_secure) {
        Some((option, _)) => Err(format!("{option} has no effect on {url}: it is for https://")),
        None => Ok(Named { is_secure, authority, path, host, port }),
    }
}

/// Whether it is of https, authority and path.
fn split(url: &str) -> Result<(bool, String, String), String> {
    let (is_secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(format!("{url}: not a URL of http, such as http://127.0.0.1:8080/")),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let slash = if path.starts_with('/') { "" } else { "/" };
    let path = format!("{slash}{path}");
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if authority.is_empty() || authority.contains('@') || !is_plain(authority) {
        return Err(format!("{url}: {authority:?} is not a host"));
    }
    if !is_plain(&path) {
        return Err(format!("{url}: spaces and the like must be written as %20"));
    }
    Ok((is_secure, authority.into(), path))
}

fn host_and_port(authority: &str, default: u16) -> Result<(String, u16), String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse().map_err(|_| format!("{authority}: {port:?} is not a port"))?;
            (host, port)
        }
        _ => (authority, default),
    };
    Ok((host.trim_start_matches('[').trim_end_matches(']').into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(url: &str) -> Result<Target, String> {
        Target::resolve(url, &Tls::default())
    }

    #[test]
    fn a_url_of_https_has_its_own_port_and_what_is_trusted() {
        let tls = Tls { insecure: true, ..Tls::default() };
        let target = Target::resolve("https://127.0.0.1/", &tls).unwrap();
        assert_eq!(target.addresses, ["127.0.0.1:443".parse().unwrap()]);
        assert!(target.client.is_some());
        let why = Target::resolve("http://127.0.0.1/", &tls).unwrap_err();
        assert_eq!(why, "--insecure has no effect on http://127.0.0.1/: it is for https://");
        let none = Tls { ca: Some("/dev/null".into()), ..Tls::default() };
        let why = Target::resolve("https://127.0.0.1/", &none).unwrap_err();
        assert_eq!(why, "--ca /dev/null: no certificate in PEM");
        let none = Tls { group: Some("none".into()), ..tls };
        let why = Target::resolve("https://127.0.0.1/", &none).unwrap_err();
        assert!(why.contains("none is none of the groups: X25519MLKEM768, X25519"), "{why}");
    }

    #[test]
    fn a_url_is_taken_apart() {
        let target = resolve("http://127.0.0.1:8080/a?b#c").unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("127.0.0.1:8080", "/a?b"));
        assert_eq!(target.addresses, ["127.0.0.1:8080".parse().unwrap()]);
        let target = resolve("http://[::1]?q").unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("[::1]", "/?q"));
        assert_eq!(target.addresses, ["[::1]:80".parse().unwrap()]);
        assert!(target.is_loopback());
    }

    #[test]
    fn a_server_on_any_address_of_this_machine_is_local() {
        let is_local = |host: &str| resolve(&format!("http://{host}/")).unwrap().is_local();
        assert!(is_local("127.0.0.1") && !is_local("192.0.2.1"));
        // The address by which others are reached, if there is a way to any: nothing is sent.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("192.0.2.1:9").is_ok() {
            assert!(is_local(&socket.local_addr().unwrap().ip().to_string()));
        }
    }

    #[test]
    fn what_cannot_be_loaded_is_told() {
        for (url, why) in [
            ("127.0.0.1:80", "not a URL"),
            ("http:///x", "not a host"),
            ("http://u@127.0.0.1/", "not a host"),
            ("http://127.0.0.1:99999/", "not a port"),
            ("http://127.0.0.1/a b", "%20"),
            ("http://nowhere.invalid/", "is not known"),
        ] {
            let told = resolve(url).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
