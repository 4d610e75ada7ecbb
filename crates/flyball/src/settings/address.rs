//! The written forms of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use flyball_arch::AccessLog;
use flyball_sys::net::{Address, Endpoint};

use super::text;

/// What an address may look like, for help and errors.
pub(super) const ADDRESS: &str = "an address such as 8080, :8080, 127.0.0.1:80, [::1]:80 or \
                                  localhost:80";

/// What the path of a Unix-domain socket begins with.
const UNIX: &str = "unix:";

/// Longest path of a Unix-domain socket, in bytes: `sun_path` holds 108 with its NUL (unix(7)).
pub(super) const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address to listen on. `8080` and `:8080` are all interfaces, IPv6 and IPv4; `localhost` is
/// 127.0.0.1. No other name is looked up, so nothing blocks.
pub(super) fn address(text: &str) -> Option<Address> {
    let bare = text.strip_prefix(':').unwrap_or(text);
    if let Some(port) = port(bare) {
        return Some((Ipv6Addr::UNSPECIFIED, port).into());
    }
    if let Some(after) = text.strip_prefix("localhost:") {
        return port(after).map(|port| (Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse::<SocketAddr>().ok()
}

/// An address to listen on, perhaps with a scheme before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schemed {
    /// Whether clients speak TLS there: true for `https://`, false for `http://`, `None` where
    /// neither is written.
    pub tls: Option<bool>,
    /// The address, or the path of a Unix-domain socket.
    pub address: Endpoint,
}

/// An address to listen on, or `unix:` and a path, with `https://` before it where clients speak
/// TLS. The path starts from `base` when it is relative.
pub(super) fn listen(text: &str, base: &Path) -> Option<Schemed> {
    let (tls, rest) = scheme(text);
    admin(rest, base).map(|address| Schemed { tls, address })
}

/// Whether `https://` or `http://` stands before an address, and what stands behind it, but for a
/// last slash.
fn scheme(text: &str) -> (Option<bool>, &str) {
    let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
        (Some(rest), _) => (Some(true), rest),
        (None, Some(rest)) => (Some(false), rest),
        (None, None) => (None, text),
    };
    let is_url = !rest.starts_with(UNIX);
    (tls, rest.strip_suffix('/').filter(|_| is_url).unwrap_or(rest))
}

/// What was expected in place of the path of a socket that cannot be one.
pub(super) fn instead_of_path(text: &str) -> Option<String> {
    let path = text.strip_prefix(UNIX).filter(|path| !path.is_empty() && !path.contains('\0'))?;
    Some(match path.starts_with('@') {
        true => "unix:PATH, the path of a socket in the file system: all users can connect to an \
                 abstract one (unix(7))"
            .to_owned(),
        false => format!(
            "unix:PATH with at most {UNIX_PATH_BYTES_MAX} bytes in the whole path, which is all \
             that the kernel takes (unix(7))"
        ),
    })
}

/// What was expected in place of an address to listen on that lacks its port, that is a name, or
/// whose path cannot be one: what to type.
pub(super) fn instead(text: &str) -> Option<String> {
    let (tls, rest) = scheme(text);
    if rest.starts_with(UNIX) {
        return instead_of_path(rest);
    }
    let (before, port) = if tls == Some(true) { ("https://", 443) } else { ("", 80) };
    let with_port = format!("{}:{port}", rest.strip_suffix(':').unwrap_or(rest));
    if address(&with_port).is_some() {
        return Some(format!("an address with its port, such as {before}{with_port}"));
    }
    let host = match rest.rsplit_once(':') {
        Some((host, after)) if self::port(after).is_some() => host,
        _ => rest,
    };
    let is_name = text::is_host(host) && host.contains('.') && host.parse::<IpAddr>().is_err();
    is_name.then(|| {
        format!("an address such as {before}:{port}, and no name: those are `hosts` of sites")
    })
}

/// Where `/status` and `/metrics` are served: an address, or `unix:` and a path, which starts from
/// `base` when it is relative.
pub(super) fn admin(text: &str, base: &Path) -> Option<Endpoint> {
    let Some(path) = text.strip_prefix(UNIX) else {
        return address(text).map(Endpoint::Tcp);
    };
    let joined = base.join(path);
    let fits = joined.as_os_str().len() <= UNIX_PATH_BYTES_MAX && !path.contains('\0');
    let is_abstract = path.starts_with('@');
    (fits && !is_abstract && !path.is_empty()).then_some(Endpoint::Unix(joined))
}

/// The address of a server's `--admin`, as it is written there; paths start from the directory of
/// whoever asks.
pub fn admin_address(text: &str) -> Option<Endpoint> {
    admin(text, Path::new(""))
}

/// Where a log goes: `-` is `dash`, the names that Linux has for standard output and standard error
/// are these, and all else is a path, which starts from `base` when it is relative. A log follows
/// no links, which those names are.
pub(super) fn log(text: &str, base: &Path, dash: fn() -> AccessLog) -> Option<AccessLog> {
    match text {
        "-" => Some(dash()),
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => Some(AccessLog::Stdout),
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => Some(AccessLog::Stderr),
        _ => path(text, base).map(AccessLog::File),
    }
}

/// A path of a file or directory, which starts from `base` when it is relative.
pub(super) fn path(text: &str, base: &Path) -> Option<PathBuf> {
    (!text.is_empty() && !text.contains('\0')).then(|| base.join(text))
}

fn port(text: &str) -> Option<u16> {
    text::integer(text)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_five_forms() {
        for (text, expected) in [
            ("8080", "[::]:8080"),
            (":8080", "[::]:8080"),
            ("0", "[::]:0"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
            ("localhost:80", "127.0.0.1:80"),
        ] {
            assert_eq!(address(text), Some(expected.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            ":",
            "banana",
            "127.0.0.1",
            "127.0.0.1:",
            "::1:80",
            "[::1]",
            "65536",
            ":65536",
            "localhost",
            "localhost:",
            "example.org:80",
            "-1",
            "+80",
            "::80",
            "1.2.3.4:70000",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_to_listen_on_says_what_is_spoken_there() {
        for (text, tls, address) in [
            (":443", None, "[::]:443"),
            ("http://127.0.0.1:80", Some(false), "127.0.0.1:80"),
            ("https://:443", Some(true), "[::]:443"),
            ("https://[::1]:443/", Some(true), "[::1]:443"),
            ("https://localhost:8443", Some(true), "127.0.0.1:8443"),
        ] {
            let expected = Schemed { tls, address: Endpoint::Tcp(address.parse().unwrap()) };
            assert_eq!(listen(text, Path::new("/etc")), Some(expected), "{text}");
        }
        for (text, tls, path) in [
            ("unix:/run/a.sock", None, "/run/a.sock"),
            ("unix:a.sock", None, "/etc/a.sock"),
            ("https://unix:/run/a.sock", Some(true), "/run/a.sock"),
            ("http://unix:a", Some(false), "/etc/a"),
        ] {
            let expected = Schemed { tls, address: Endpoint::Unix(path.into()) };
            assert_eq!(listen(text, Path::new("/etc")), Some(expected), "{text}");
        }
        for text in ["https://", "https:443", "ftp://:21", "https://https://:443", "HTTPS://:443"] {
            assert_eq!(listen(text, Path::new("/etc")), None, "{text}");
        }
    }

    #[test]
    fn an_address_without_its_port_is_told_with_one() {
        for (text, expected) in [
            ("https://", "https://:443"),
            ("https://127.0.0.1", "https://127.0.0.1:443"),
            ("https://[::1]/", "https://[::1]:443"),
            ("https://localhost:", "https://localhost:443"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("0.0.0.0", "0.0.0.0:80"),
        ] {
            let instead = instead(text).unwrap();
            assert!(instead.ends_with(&format!("such as {expected}")), "{text}: {instead}");
            assert!(
                listen(text, Path::new("")).is_none() && listen(expected, Path::new("")).is_some(),
                "{text}"
            );
        }
        for name in ["https://example.org", "https://example.org:8443/"] {
            let instead = instead(name).unwrap();
            assert!(instead.contains("https://:443, and no name"), "{name}: {instead}");
        }
        assert!(instead("www.example.org:80").unwrap().contains("such as :80, and no name"));
        let long = format!("unix:/{}", "a".repeat(UNIX_PATH_BYTES_MAX));
        for (text, why) in [(long, "at most 107 bytes"), ("https://unix:@a".into(), "abstract")] {
            assert!(listen(&text, Path::new("/")).is_none());
            assert!(instead(&text).unwrap().contains(why), "{text}");
        }
        for text in ["banana", "unix:", "127.0.0.1:70000", "https:443", "ftp://a.test"] {
            assert_eq!(instead(text), None, "{text}");
        }
    }

    #[test]
    fn the_admin_address_may_be_a_unix_socket() {
        let base = Path::new("/etc/flyball");
        let unix = |path: &str| Some(Endpoint::Unix(path.into()));
        assert_eq!(admin("unix:/run/a.sock", base), unix("/run/a.sock"));
        assert_eq!(admin("unix:a.sock", base), unix("/etc/flyball/a.sock"));
        assert_eq!(admin("unix:a.sock", Path::new("")), unix("a.sock"));
        let tcp = Endpoint::Tcp("127.0.0.1:9090".parse().unwrap());
        assert_eq!(admin("127.0.0.1:9090", base), Some(tcp));
        let longest = format!("unix:/{}", "a".repeat(UNIX_PATH_BYTES_MAX - 1));
        assert!(admin(&longest, base).is_some());
        for text in
            ["", "unix:", "unix", "unix:@a", "unix:a\0b", "/run/a.sock", &format!("{longest}a")]
        {
            assert_eq!(admin(text, base), None, "{text}");
        }
    }

    #[test]
    fn the_access_log_is_a_file_or_standard_output() {
        let base = Path::new("conf");
        let access_log = |text| log(text, base, || AccessLog::Stdout);
        assert_eq!(access_log("-"), Some(AccessLog::Stdout));
        assert_eq!(log("-", base, || AccessLog::Stderr), Some(AccessLog::Stderr));
        assert_eq!(access_log("/dev/stdout"), Some(AccessLog::Stdout));
        assert_eq!(access_log("/dev/stderr"), Some(AccessLog::Stderr));
        assert_eq!(access_log("a.log"), Some(AccessLog::File("conf/a.log".into())));
        assert_eq!(access_log("/a.log"), Some(AccessLog::File("/a.log".into())));
        assert_eq!(access_log(""), None);
        assert_eq!(access_log("a\0"), None);
    }
}
