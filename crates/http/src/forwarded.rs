//! Whose request a proxy passes on, as it says in the request: `Forwarded` (RFC 7239) and
//! `X-Forwarded-For`, read from the right past trusted proxies.
//!
//! Each proxy appends the address that it was asked from. What stands left of the first address
//! that is not trusted may have been written by anybody.

use std::net::{IpAddr, SocketAddr};

use crate::field::Name;
use crate::list::Split;
use crate::network::Network;
use crate::remote::Remote;
use crate::request::Request;

const FORWARDED_PROTO: &[u8] = b"x-forwarded-proto";

/// Most proxies in a row that are looked through.
pub const HOPS_MAX: usize = 32;

/// The client of a request that came from `peer`, by the field `name`, which is
/// [`Name::Forwarded`] or [`Name::XForwardedFor`]. A peer that is not trusted is the client, and so
/// is the last proxy that says nothing that can be read as an address. Does not allocate.
pub fn client_of(request: &Request<'_>, name: Name, peer: Remote, trusted: &[Network]) -> Remote {
    let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
    let mut client = peer.to_canonical();
    let mut hops = 0;
    for value in request.values(name).rev() {
        let mut elements = Elements::of(value, name == Name::Forwarded && is_well_quoted(value));
        loop {
            if !is_trusted(client) || hops == HOPS_MAX {
                return client;
            }
            hops += 1;
            let Some(element) = elements.last() else { break };
            let said = match name {
                Name::Forwarded => forwarded_for(element),
                _ => address_of(element),
            };
            match said {
                Some(address) => client = Remote::Ip(address),
                None => return client,
            }
        }
        hops -= 1;
    }
    client
}

/// Whether the proxy that a request came from says that its own client came by `https`: in the last
/// element of `Forwarded`, or in the last of `X-Forwarded-Proto` where it names its client in
/// [`Name::XForwardedFor`]. The other field may be the client's own. Who it is must be known to be
/// trusted.
pub fn says_https(request: &Request<'_>, name: Name) -> bool {
    let said = match name {
        Name::Forwarded => {
            let value = request.values(Name::Forwarded).next_back();
            value.and_then(|value| {
                let element = parts(value, b',', is_well_quoted(value)).last()?;
                parameter(element, b"proto")
            })
        }
        _ => {
            let lines = request.fields().filter(|(n, _)| n.eq_ignore_ascii_case(FORWARDED_PROTO));
            lines.last().and_then(|(_, value)| value.rsplit(|byte| *byte == b',').next())
        }
    };
    said.is_some_and(|scheme| scheme.trim_ascii().eq_ignore_ascii_case(b"https"))
}

/// Whether each quoted string is the whole value of a parameter, and is closed (RFC 7239, section
/// 4). If not, a client wrote a quote to hide what a proxy appends, and quotes mean nothing.
fn is_well_quoted(value: &[u8]) -> bool {
    let mut rest = value;
    while let Some(begin) = memchr::memchr(b'"', rest) {
        let (before, inside) = (&rest[..begin], &rest[begin + 1..]);
        let mut escaped = false;
        let end = inside.iter().position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else { return false };
        rest = inside[end + 1..].trim_ascii_start();
        if !before.ends_with(b"=") || !matches!(rest, [] | [b',' | b';', ..]) {
            return false;
        }
    }
    true
}

/// The last elements of a list.
struct Elements<'a> {
    found: [&'a [u8]; HOPS_MAX],
    /// How many elements there were.
    count: usize,
    /// How many were taken.
    taken: usize,
}

impl<'a> Elements<'a> {
    fn of(value: &'a [u8], quotes: bool) -> Elements<'a> {
        let mut elements = Elements { found: [b""; HOPS_MAX], count: 0, taken: 0 };
        for element in parts(value, b',', quotes) {
            elements.found[elements.count % HOPS_MAX] = element;
            elements.count += 1;
        }
        elements
    }

    /// The last one that was not taken yet; `None` when there is none.
    fn last(&mut self) -> Option<&'a [u8]> {
        if self.taken == self.count.min(HOPS_MAX) {
            return None;
        }
        self.taken += 1;
        Some(self.found[(self.count - self.taken) % HOPS_MAX])
    }
}

/// What is between separators, without the white space around it.
fn parts(value: &[u8], separator: u8, quotes: bool) -> impl Iterator<Item = &[u8]> {
    Split::new(value, separator, quotes).map(<[u8]>::trim_ascii)
}

/// The address of the `for` parameter of one element (RFC 7239, sections 4 and 6).
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    address_of(parameter(element, b"for")?)
}

/// The value of a parameter of one element, without its quotes (RFC 7239, section 4).
fn parameter<'a>(element: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    for pair in parts(element, b';', true) {
        let Some(equals) = memchr::memchr(b'=', pair) else { continue };
        if pair[..equals].eq_ignore_ascii_case(name) && found.replace(&pair[equals + 1..]).is_some()
        {
            // Given twice, it says nothing.
            return None;
        }
    }
    match found? {
        [b'"', inner @ .., b'"'] => Some(inner),
        value => Some(value),
    }
}

/// An address, perhaps with a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`,
/// `[2001:db8::1]:80`. Not `unknown`, and no obfuscated identifier.
fn address_of(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let address = text.parse().ok();
    let address = address.or_else(bare);
    let address = address.or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()));
    address.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Head, Limits, scan};
    use proptest::prelude::*;

    /// The client of a request with these field lines that comes from 10.0.0.1, where 10.0.0.0/8
    /// and fd00::/8 are trusted.
    fn client(name: Name, fields: &[&str]) -> String {
        client_from("10.0.0.1", name, fields)
    }

    fn client_from(peer: &str, name: Name, fields: &[&str]) -> String {
        let field = if name == Name::Forwarded { "Forwarded" } else { "X-Forwarded-For" };
        let lines: String = fields.iter().map(|value| format!("{field}: {value}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let mut head = Head::default();
        scan::parse_head(bytes.as_bytes(), &Limits::default(), &mut head).unwrap();
        let trusted = ["10.0.0.0/8", "fd00::/8", "unix"].map(|text| text.parse().unwrap());
        let peer = peer.parse().map_or(Remote::Unix, Remote::Ip);
        client_of(&head.request(bytes.as_bytes()), name, peer, &trusted).to_string()
    }

    #[test]
    fn x_forwarded_for_is_read_from_the_right_past_those_that_are_trusted() {
        for (fields, expected) in [
            (&[][..], "10.0.0.1"),
            (&["192.0.2.1"], "192.0.2.1"),
            (&["6.6.6.6, 192.0.2.1"], "192.0.2.1"),
            (&["6.6.6.6, 192.0.2.1, 10.1.1.1,fd00::2"], "192.0.2.1"),
            (&["6.6.6.6", "192.0.2.1", "10.1.1.1"], "192.0.2.1"),
            (&["6.6.6.6, 192.0.2.1", "10.1.1.1, 10.2.2.2"], "192.0.2.1"),
            (&["10.3.3.3, 10.2.2.2"], "10.3.3.3"),
            (&["192.0.2.1:5000"], "192.0.2.1"),
            (&["[2001:db8::1]:5000"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1, unknown"], "10.0.0.1"),
            (&["192.0.2.1, 10.9.9.9, hello"], "10.0.0.1"),
            (&["192.0.2.1, hello, 10.9.9.9"], "10.9.9.9"),
            (&["192.0.2.1,"], "10.0.0.1"),
            (&[""], "10.0.0.1"),
        ] {
            assert_eq!(client(Name::XForwardedFor, fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn forwarded_is_read_the_same_way() {
        for (fields, expected) in [
            (&["for=192.0.2.1"][..], "192.0.2.1"),
            (&["For=192.0.2.1;proto=https;by=10.0.0.1"], "192.0.2.1"),
            (&["proto=https; for=\"192.0.2.1:80\""], "192.0.2.1"),
            (&["for=\"[2001:db8::1]:4711\""], "2001:db8::1"),
            (&["for=6.6.6.6, for=192.0.2.1, for=10.1.1.1"], "192.0.2.1"),
            (&["for=6.6.6.6;ext=\", for=9.9.9.9\", for=10.1.1.1"], "6.6.6.6"),
            (&["for=6.6.6.6;ext=\"\\\", for=9.9.9.9\", for=10.1.1.1"], "6.6.6.6"),
            (&["for=192.0.2.1, for=unknown"], "10.0.0.1"),
            (&["for=192.0.2.1, for=\"_gazonk\", for=10.1.1.1"], "10.1.1.1"),
            (&["for=192.0.2.1, proto=http"], "10.0.0.1"),
            (&["for=192.0.2.1;for=192.0.2.2"], "10.0.0.1"),
            (&["for=192.0.2.1, for=\"10.1.1.1"], "10.0.0.1"),
            (&["for=6.6.6.6;ext=\", for=192.0.2.1"], "192.0.2.1"),
            (&["for=6.6.6.6;ext=\"\\, for=\"[2001:db8::1]\""], "2001:db8::1"),
        ] {
            assert_eq!(client(Name::Forwarded, fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn whoever_is_not_trusted_is_not_believed() {
        for name in [Name::Forwarded, Name::XForwardedFor] {
            let said = client_from("192.0.2.9", name, &["for=6.6.6.6", "6.6.6.6"]);
            assert_eq!(said, "192.0.2.9");
        }
        let mapped = client_from("::ffff:192.0.2.9", Name::XForwardedFor, &["6.6.6.6"]);
        assert_eq!(mapped, "192.0.2.9");
        assert_eq!(client_from("::ffff:10.0.0.1", Name::XForwardedFor, &["6.6.6.6"]), "6.6.6.6");
    }

    #[test]
    fn a_row_of_proxies_is_bounded() {
        let row = |hops: usize| format!("192.0.2.1{}", ", 10.0.0.2".repeat(hops - 1));
        assert_eq!(client(Name::XForwardedFor, &[&row(HOPS_MAX)]), "192.0.2.1");
        assert_eq!(client(Name::XForwardedFor, &[&row(HOPS_MAX + 1)]), "10.0.0.2");
        let lines = vec!["10.0.0.2"; HOPS_MAX];
        assert_eq!(
            client(Name::XForwardedFor, &[&["192.0.2.1"], &lines[1..]].concat()),
            "192.0.2.1"
        );
        assert_eq!(client(Name::XForwardedFor, &[&["192.0.2.1"], &lines[..]].concat()), "10.0.0.2");
    }

    #[test]
    fn no_quote_of_a_client_hides_what_a_proxy_appends() {
        for begun in ["for=10.0.0.5;x=\"", "\"", "for=\"10.0.0.5", "x=\"\\", "a\"b=\"c"] {
            for told in ["", ";host=\"a\\\"b\"", ";host=\"ab\"", ";by=\"_x\\\"y\";proto=http"] {
                let value = format!("{begun}, for=9.9.9.9{told}");
                assert_eq!(client(Name::Forwarded, &[&value]), "9.9.9.9", "{value}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_value_is_read_or_passed_over(
            value in "[ -~]{0,60}",
            more in "[0-9.,:;=\"\\\\for]{0,60}",
        ) {
            for name in [Name::Forwarded, Name::XForwardedFor] {
                client(name, &[&value, &more]);
            }
        }

        #[test]
        fn what_a_client_writes_never_matters(forged in "[ -~]{0,60}") {
            // The proxy appends to what it got.
            let lines = [forged.as_str(), "192.0.2.1"];
            prop_assert_eq!(client(Name::XForwardedFor, &lines), "192.0.2.1");
            let appended = format!("{forged}, 192.0.2.1");
            prop_assert_eq!(client(Name::XForwardedFor, &[&appended]), "192.0.2.1");
            let appended = format!("{forged}, for=192.0.2.1");
            prop_assert_eq!(client(Name::Forwarded, &[&appended]), "192.0.2.1");
            let appended = format!("{forged}, for=\"[2001:db8::1]\"");
            prop_assert_eq!(client(Name::Forwarded, &[&appended]), "2001:db8::1");
        }
    }

    #[test]
    fn what_the_nearest_proxy_says_of_the_scheme_counts() {
        let says = |name: Name, lines: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
            let mut head = Head::default();
            scan::parse_head(text.as_bytes(), &Limits::default(), &mut head).unwrap();
            says_https(&head.request(text.as_bytes()), name)
        };
        let (standard, usual) = (Name::Forwarded, Name::XForwardedFor);
        for (name, lines) in [
            (usual, "X-Forwarded-Proto: https"),
            (usual, "X-Forwarded-Proto: http, HTTPS"),
            (usual, "X-Forwarded-Proto: http\r\nX-Forwarded-Proto: https"),
            (standard, "Forwarded: for=192.0.2.1;proto=https"),
            (standard, "Forwarded: proto=http, for=192.0.2.1; Proto=\"https\""),
            (standard, "Forwarded: proto=http\r\nForwarded: proto=https"),
        ] {
            assert!(says(name, lines), "{lines}");
        }
        for (name, lines) in [
            (usual, "X-Forwarded-Proto: https, http"),
            (usual, "X-Forwarded-Proto: https\r\nX-Forwarded-For: ::1\r\nX-Forwarded-Proto: http"),
            (usual, "X-Forwarded-Proto: httpsx"),
            (usual, "Forwarded: proto=https"),
            (standard, "X-Forwarded-Proto: https"),
            (standard, "Forwarded: proto=https, proto=http"),
            (standard, "Forwarded: proto=https\r\nForwarded: proto=http"),
            (standard, "Forwarded: proto=https;proto=http"),
            (standard, "Forwarded: for=\"proto=https\""),
            (standard, "Forwarded: proto"),
            (standard, "X: 1"),
        ] {
            assert!(!says(name, lines), "{lines}");
        }
    }
}
