//! What is loaded: a URL and the addresses behind it.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

/// An `http:` URL, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it was written.
    pub url: String,
    /// The value of `Host`.
    pub authority: String,
    /// The path and query that are asked for.
    pub path: String,
    /// Where connections go, in turn.
    pub addresses: Vec<SocketAddr>,
}

impl Target {
    /// Reads a URL and resolves its host. Blocks while the system's resolver does.
    ///
    /// # Errors
    /// What is wrong with the URL, or that its host is not known.
    pub fn resolve(url: &str) -> Result<Target, String> {
        let (authority, path) = split(url)?;
        let (host, port) = host_and_port(&authority)?;
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
        Ok(Target { url: url.into(), authority, path, addresses })
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

/// Authority and path.
fn split(url: &str) -> Result<(String, String), String> {
    if url.starts_with("https:") {
        return Err(format!("{url}: only http: is spoken here; load the server without TLS"));
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(format!("{url}: not a URL of http, such as http://127.0.0.1:8080/"));
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
    Ok((authority.into(), path))
}

fn host_and_port(authority: &str) -> Result<(String, u16), String> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse().map_err(|_| format!("{authority}: {port:?} is not a port"))?;
            (host, port)
        }
        _ => (authority, 80),
    };
    Ok((host.trim_start_matches('[').trim_end_matches(']').into(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let target = Target::resolve("http://127.0.0.1:8080/a?b#c").unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("127.0.0.1:8080", "/a?b"));
        assert_eq!(target.addresses, ["127.0.0.1:8080".parse().unwrap()]);
        let target = Target::resolve("http://[::1]?q").unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), ("[::1]", "/?q"));
        assert_eq!(target.addresses, ["[::1]:80".parse().unwrap()]);
        assert!(target.is_loopback());
    }

    #[test]
    fn a_server_on_any_address_of_this_machine_is_local() {
        let is_local = |host: &str| Target::resolve(&format!("http://{host}/")).unwrap().is_local();
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
            ("https://127.0.0.1/", "only http:"),
            ("127.0.0.1:80", "not a URL"),
            ("http:///x", "not a host"),
            ("http://u@127.0.0.1/", "not a host"),
            ("http://127.0.0.1:99999/", "not a port"),
            ("http://127.0.0.1/a b", "%20"),
            ("http://nowhere.invalid/", "is not known"),
        ] {
            let told = Target::resolve(url).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
