//! The variables that tell a program of its request (RFC 3875, section 4.1).

use std::fmt::Display;
use std::io::Write;

use flyball_http::head::Content;
use flyball_http::{Name, Remote, Request, Scheme, Secured, secured};

use crate::path::{self, Mapped};

/// The variables, in the order of their being set. All their text is in one piece: there are some
/// thirty for each request, and two allocations for each of those cost more than the rest.
#[derive(Debug, Default)]
pub struct Environment {
    /// Name and value of each, one behind the other, and what is no longer part of any.
    text: Vec<u8>,
    variables: Vec<Variable>,
}

/// Where a variable is in the text: its value follows its name.
#[derive(Clone, Copy, Debug)]
struct Variable {
    start: usize,
    name_len: usize,
    value_len: usize,
}

/// Fields that are no variables of their own. `Proxy` would be taken for a setting of the program's
/// own by many (CVE-2016-5385); the others belong to this connection, or have another variable.
const LEFT_OUT: u64 = Name::OF_THE_CONNECTION
    | Name::set(&[Name::Proxy, Name::ProxyAuthorization, Name::ContentLength, Name::ContentType]);

/// Room for as many variables as there mostly are, and for their text.
const VARIABLES: usize = 48;
const TEXT_BYTES: usize = 2048;

/// The address of a client that has none, as nginx has it.
const NO_ADDRESS: &[u8] = b"unix:";

/// In front of what was a field.
const HTTP: &[u8] = b"HTTP_";

/// The names that a request becomes, beside those of its fields.
const OF_REQUEST: &[&str] = &[
    "GATEWAY_INTERFACE",
    "SERVER_SOFTWARE",
    "SERVER_PROTOCOL",
    "REQUEST_METHOD",
    "REQUEST_URI",
    "REQUEST_SCHEME",
    "HTTPS",
    "SSL_PROTOCOL",
    "SSL_CIPHER",
    "SSL_TLS_SNI",
    "SSL_SESSION_RESUMED",
    "SSL_CLIENT_VERIFY",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_FINGERPRINT",
    "QUERY_STRING",
    "SERVER_NAME",
    "SERVER_PORT",
    "REMOTE_ADDR",
    "REMOTE_HOST",
    "REQUEST_ID",
    "REDIRECT_STATUS",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "AUTH_TYPE",
    "REMOTE_USER",
];

/// Where programs look for others when nothing else is said.
pub const PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

impl Environment {
    /// What a request says, whose client has logged in as `user` if it has. What depends on where
    /// the program is found is added later.
    pub(crate) fn of(request: &Request<'_>, id: &str, user: Option<&[u8]>) -> Environment {
        let (text, variables) = (Vec::with_capacity(TEXT_BYTES), Vec::with_capacity(VARIABLES));
        Environment { text, variables }.renewed(request, id, user)
    }

    /// What was agreed on for the connection, by the names that mod_ssl has for it.
    fn add_secured(&mut self, secured: &Secured) {
        let resumed: &[u8] = if secured.is_resumed { b"Resumed" } else { b"Initial" };
        self.add("SSL_PROTOCOL", secured.version.as_bytes());
        self.add("SSL_CIPHER", secured.cipher.as_bytes());
        self.add("SSL_TLS_SNI", secured.name.as_deref().unwrap_or_default().as_bytes());
        self.add("SSL_SESSION_RESUMED", resumed);
        let Some(client) = &secured.client else {
            return self.add("SSL_CLIENT_VERIFY", b"NONE");
        };
        self.add("SSL_CLIENT_VERIFY", b"SUCCESS");
        self.add("SSL_CLIENT_S_DN", client.subject.as_bytes());
        self.add("SSL_CLIENT_I_DN", client.issuer.as_bytes());
        self.add("SSL_CLIENT_M_SERIAL", client.serial.to_ascii_uppercase().as_bytes());
        self.add("SSL_CLIENT_FINGERPRINT", client.fingerprint.as_bytes());
    }

    /// The same in the memory of one that is not needed any more.
    pub(crate) fn renewed(self, request: &Request<'_>, id: &str, user: Option<&[u8]>) -> Self {
        let mut all = self;
        all.text.clear();
        all.variables.clear();
        all.add("GATEWAY_INTERFACE", b"CGI/1.1");
        all.add("SERVER_SOFTWARE", concat!("flyball/", env!("CARGO_PKG_VERSION")).as_bytes());
        all.add("SERVER_PROTOCOL", request.head.version.as_str().as_bytes());
        all.add("REQUEST_METHOD", request.method_token());
        all.add_uri(request);
        let scheme = if request.is_secure() { Scheme::Https } else { request.scheme() };
        all.add("REQUEST_SCHEME", scheme.as_str().as_bytes());
        if scheme == Scheme::Https {
            all.add("HTTPS", b"on");
        }
        if let Some(secured) = request.secured() {
            all.add_secured(secured);
        }
        all.add("QUERY_STRING", request.query());
        let host = request.host();
        all.add("SERVER_NAME", if host.is_empty() { b"localhost" } else { host });
        all.add("SERVER_PORT", port(request.authority()).unwrap_or(scheme.port().as_bytes()));
        match request.client() {
            Remote::Ip(address) => all.add_shown("REMOTE_ADDR", &address),
            Remote::Unix => all.add("REMOTE_ADDR", NO_ADDRESS),
        }
        all.add_again("REMOTE_HOST");
        all.add("REQUEST_ID", id.as_bytes());
        // php-cgi answers nothing without it.
        all.add("REDIRECT_STATUS", b"200");
        match request.content() {
            Content::Length(length) => all.add_shown("CONTENT_LENGTH", &length),
            Content::Unknown => all.add("HTTP_TRANSFER_ENCODING", b"chunked"),
            Content::None => {}
        }
        if let Some(kind) = request.field(b"content-type") {
            all.add("CONTENT_TYPE", kind);
        }
        if let Some(user) = user {
            all.add("AUTH_TYPE", b"Basic");
            all.add("REMOTE_USER", user);
        }
        for (name, value) in request.fields() {
            // A password that was for this server is no program's business (section 9.2).
            if user.is_none() || !name.eq_ignore_ascii_case(b"authorization") {
                all.add_field(name, value);
            }
        }
        all
    }

    /// Each variable as its name with its value behind it, and the length of its name.
    pub(super) fn whole(&self) -> impl Iterator<Item = (&[u8], usize)> {
        self.variables.iter().map(|Variable { start, name_len, value_len }| {
            (&self.text[*start..start + name_len + value_len], *name_len)
        })
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.variables.iter().map(|variable| self.at(*variable))
    }

    /// The value of a variable.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(known, _)| *known == name.as_bytes()).map(|(_, value)| value)
    }

    /// Adds a variable that is not there yet.
    pub(crate) fn add(&mut self, name: &str, value: &[u8]) {
        self.add_parts(name, &[value]);
    }

    /// The same with a value in parts.
    pub(crate) fn add_parts(&mut self, name: &str, value: &[&[u8]]) {
        let start = self.text.len();
        self.text.extend_from_slice(name.as_bytes());
        self.add_value(start, value);
    }

    /// The same with the value of the variable that was added last: to write it again takes less
    /// than to show it again.
    fn add_again(&mut self, name: &str) {
        let Some(&Variable { start, name_len, value_len }) = self.variables.last() else { return };
        let (value, start) = (start + name_len, self.text.len());
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_within(value..value + value_len);
        self.variables.push(Variable { start, name_len: name.len(), value_len });
    }

    /// The path and the query as they were sent, except that dot segments are resolved, as they are
    /// for rules: no program takes `/admin/../x` for a path beneath `/admin`. Nor does one take
    /// `//x/admin` for `/admin` at a host `x`: it begins with one slash.
    fn add_uri(&mut self, request: &Request<'_>) {
        let (uri, path) = (request.path_and_query(), request.path());
        let (mut relative, mut resolved) = (Vec::new(), Vec::new());
        if path::has_dot_segment(path)
            && let Ok(mapped) = path::map(path, true, &mut relative)
        {
            path::encode_path(&relative, &mut resolved);
            if mapped == Mapped::Directory && resolved != b"/" {
                resolved.push(b'/');
            }
            return self.add_parts("REQUEST_URI", &[&resolved, &uri[path.len()..]]);
        }
        let slashes = path.iter().take_while(|&&byte| byte == b'/').count();
        let slash: &[u8] = if matches!(uri, [] | [b'?' | b'/', ..]) { b"/" } else { b"" };
        self.add_parts("REQUEST_URI", &[slash, &uri[slashes..]]);
    }

    /// The same with a value as it is shown.
    fn add_shown(&mut self, name: &str, value: &dyn Display) {
        self.add(name, b"");
        let before = self.text.len();
        // Writing to a vector cannot fail.
        let _ = write!(self.text, "{value}");
        if let Some(variable) = self.variables.last_mut() {
            variable.value_len = self.text.len() - before;
        }
    }

    /// The same with any name.
    pub(crate) fn add_bytes(&mut self, name: impl Iterator<Item = u8>, value: &[&[u8]]) {
        let start = self.text.len();
        self.text.extend(name);
        self.add_value(start, value);
    }

    /// Ends a variable whose name was written from `start` on.
    fn add_value(&mut self, start: usize, value: &[&[u8]]) {
        let name_len = self.text.len() - start;
        value.iter().for_each(|part| self.text.extend_from_slice(part));
        let value_len = self.text.len() - start - name_len;
        self.variables.push(Variable { start, name_len, value_len });
    }

    /// Sets a variable; one that is there is replaced.
    pub(crate) fn set(&mut self, name: &str, value: &[u8]) {
        self.unset(name);
        self.add(name, value);
    }

    /// Takes a variable away.
    pub(crate) fn unset(&mut self, name: &str) {
        let Environment { text, variables } = self;
        variables.retain(|variable| name_in(text, *variable) != name.as_bytes());
    }

    fn at(&self, variable: Variable) -> (&[u8], &[u8]) {
        let value = variable.start + variable.name_len;
        (name_in(&self.text, variable), &self.text[value..value + variable.value_len])
    }

    /// A field as a variable (RFC 3875, section 4.1.18); lines of one name are joined.
    fn add_field(&mut self, name: &[u8], value: &[u8]) {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        // `X_A` and `X-A` would be one variable, and a program may trust what one of them says.
        if !name.iter().all(is_plain) || Name::is_any(name, LEFT_OUT) || secured::is_claim(name) {
            return;
        }
        let upper = |&byte: &u8| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() };
        let (start, value_start) = (self.text.len(), self.text.len() + HTTP.len() + name.len());
        self.add_bytes(HTTP.iter().copied().chain(name.iter().map(upper)), &[value]);
        let (before, this) = self.variables.split_at(self.variables.len() - 1);
        let known = name_in(&self.text, this[0]);
        let Some(at) = before.iter().position(|other| name_in(&self.text, *other) == known) else {
            return;
        };
        // Its new value goes behind its name, which has just been written once more.
        let between: &[u8] = if name.eq_ignore_ascii_case(b"cookie") { b"; " } else { b", " };
        let other = before[at];
        let joined = [self.at(other).1, between, value].concat();
        self.text.truncate(value_start);
        self.text.extend_from_slice(&joined);
        self.variables.pop();
        self.variables[at] = Variable { start, value_len: joined.len(), ..other };
    }
}

/// Whether a request can become a variable of this name. Any other could be a setting of the
/// program's own, such as `LD_PRELOAD`.
pub(super) fn is_of_request(name: &[u8]) -> bool {
    let is_field = |rest: &[u8]| {
        let is_plain =
            |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
        rest != b"PROXY" && !secured::is_claim(rest) && rest.iter().all(is_plain)
    };
    OF_REQUEST.iter().any(|known| known.as_bytes() == name)
        || name.strip_prefix(HTTP).is_some_and(is_field)
}

fn name_in(text: &[u8], variable: Variable) -> &[u8] {
    &text[variable.start..variable.start + variable.name_len]
}

/// The port in an authority.
fn port(host: &[u8]) -> Option<&[u8]> {
    let at = host.iter().rposition(|&byte| byte == b':');
    let digits = at.map(|at| &host[at + 1..]).unwrap_or_default();
    let is_port = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    is_port.then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::scan::parse_head;
    use flyball_http::{ClientCertificate, Head, Limits};
    use std::sync::Arc;

    fn of(head: &str) -> Vec<(String, String)> {
        of_user(head, None)
    }

    fn of_user(head: &str, user: Option<&[u8]>) -> Vec<(String, String)> {
        let mut parsed = Head::default();
        parse_head(head.as_bytes(), &Limits::default(), &mut parsed).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let all = Environment::of(&parsed.request(head.as_bytes()), "1-2", user);
        all.iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn value<'a>(all: &'a [(String, String)], name: &str) -> Option<&'a str> {
        let found: Vec<&str> =
            all.iter().filter(|(known, _)| known == name).map(|(_, v)| v.as_str()).collect();
        assert!(found.len() <= 1, "{name} is there twice");
        found.first().copied()
    }

    #[test]
    fn a_request_becomes_the_variables_of_rfc_3875() {
        let all = of("POST /a%20b/c?x=1&y HTTP/1.1\r\nHost: example.org:8080\r\n\
                      Content-Length: 5\r\nContent-Type: text/plain\r\nAccept: a\r\nAccept: b\r\n\
                      Cookie: one=1\r\nCookie: two=2\r\naccept: c\r\n\r\n");
        for (name, expected) in [
            ("GATEWAY_INTERFACE", "CGI/1.1"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("REQUEST_METHOD", "POST"),
            ("REQUEST_URI", "/a%20b/c?x=1&y"),
            ("QUERY_STRING", "x=1&y"),
            ("SERVER_NAME", "example.org"),
            ("SERVER_PORT", "8080"),
            ("CONTENT_LENGTH", "5"),
            ("CONTENT_TYPE", "text/plain"),
            ("HTTP_ACCEPT", "a, b, c"),
            ("HTTP_COOKIE", "one=1; two=2"),
            ("HTTP_HOST", "example.org:8080"),
            ("REQUEST_ID", "1-2"),
        ] {
            assert_eq!(value(&all, name), Some(expected), "{name}");
        }
        assert!(all.iter().all(|(name, _)| is_of_request(name.as_bytes())), "{all:?}");
        assert_eq!(value(&all, "HTTP_CONTENT_LENGTH"), None);
    }

    #[test]
    fn a_client_without_an_address_has_a_name_in_its_place() {
        const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut head = Head::default();
        parse_head(HEAD, &Limits::default(), &mut head).unwrap();
        for (client, shown) in
            [(Remote::Unix, &b"unix:"[..]), (Remote::Ip([192, 0, 2, 7].into()), b"192.0.2.7")]
        {
            head.client = client;
            let all = Environment::of(&head.request(HEAD), "1-2", None);
            for name in [&b"REMOTE_ADDR"[..], b"REMOTE_HOST"] {
                assert!(all.iter().any(|(known, value)| (known, value) == (name, shown)));
            }
        }
    }

    #[test]
    fn what_came_by_https_says_so() {
        const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nHttps: on\r\n\r\n";
        let mut head = Head::default();
        parse_head(HEAD, &Limits::default(), &mut head).unwrap();
        let is_on = |head: &Head| {
            let all = Environment::of(&head.request(HEAD), "1-2", None);
            all.iter().any(|(name, value)| (name, value) == (b"HTTPS", b"on"))
        };
        assert!(!is_on(&head));
        head.scheme = Scheme::Https;
        let (subject, serial) = ("CN=a".into(), "0a1f".into());
        let client = ClientCertificate { subject, serial, ..Default::default() };
        let secured =
            Secured { version: "TLSv1.3", client: Some(client.into()), ..Secured::default() };
        head.secured = Some(Arc::new(secured));
        assert!(is_on(&head));
        let all = Environment::of(&head.request(HEAD), "1-2", None);
        for pair in [
            ("SSL_PROTOCOL", "TLSv1.3"),
            ("SSL_CLIENT_S_DN", "CN=a"),
            ("SSL_CLIENT_M_SERIAL", "0A1F"),
            ("REQUEST_SCHEME", "https"),
            ("SERVER_PORT", "443"),
        ] {
            let (name, value) = (pair.0.as_bytes(), pair.1.as_bytes());
            assert!(all.iter().any(|one| one == (name, value)), "{pair:?}");
        }
        assert!(all.iter().all(|(name, _)| is_of_request(name)));
        (head.scheme, head.came_by_https) = (Scheme::Http, true);
        assert!(is_on(&head));
        let all = Environment::of(&head.request(HEAD), "1-2", None);
        for (name, told) in [(&b"REQUEST_SCHEME"[..], &b"https"[..]), (b"SERVER_PORT", b"443")] {
            assert!(all.iter().any(|one| one == (name, told)), "by a proxy that is trusted");
        }
    }

    #[test]
    fn no_path_seems_to_lie_where_its_dot_segments_lead_away_from() {
        for (sent, told) in [
            ("/admin/../x?y=/../z", "/x?y=/../z"),
            ("/admin/%2e%2E/a%20b/.", "/a%20b/"),
            ("/a/..", "/"),
            ("/.well-known/a:b//c", "/.well-known/a:b//c"),
            ("//x/admin?y", "/x/admin?y"),
            ("///", "/"),
            ("?x", "/?x"),
        ] {
            let target = if sent.starts_with('/') { "" } else { "http://a" };
            let all = of(&format!("GET {target}{sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert_eq!(value(&all, "REQUEST_URI"), Some(told), "{sent}");
        }
    }

    #[test]
    fn what_is_set_takes_the_place_of_what_was_there() {
        let mut all = Environment::default();
        all.set("A", b"one");
        all.add_parts("B", &[b"two", b"", b"three"]);
        all.set("A", b"four");
        all.unset("none");
        assert_eq!((all.get("A"), all.get("B")), (Some(&b"four"[..]), Some(&b"twothree"[..])));
        assert_eq!(all.iter().count(), 2);
        all.unset("B");
        assert_eq!(all.get("B"), None);
    }

    #[test]
    fn who_has_logged_in_is_told_and_the_password_is_not() {
        let head = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uOnNlY3JldA==\r\n\r\n";
        let all = of_user(head, Some(b"ann"));
        assert_eq!(
            (value(&all, "AUTH_TYPE"), value(&all, "REMOTE_USER")),
            (Some("Basic"), Some("ann"))
        );
        assert!(all.iter().all(|(name, _)| is_of_request(name.as_bytes())), "{all:?}");
        assert_eq!(value(&all, "HTTP_AUTHORIZATION"), None);
        // Where this server asks for no password, the program may do so itself.
        let all = of(head);
        assert_eq!((value(&all, "AUTH_TYPE"), value(&all, "REMOTE_USER")), (None, None));
        assert_eq!(value(&all, "HTTP_AUTHORIZATION"), Some("Basic YW5uOnNlY3JldA=="));
    }

    #[test]
    fn no_setting_of_a_program_is_of_a_request() {
        for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "HTTP_PROXY", "http_proxy", "HTTP_x", ""] {
            assert!(!is_of_request(name.as_bytes()), "{name}");
        }
        for name in [
            "HTTP_HTTPS",
            "HTTP_SSL_CLIENT_VERIFY",
            "HTTP_SSL_PROTOCOL",
            "HTTP_CLIENT_CERT",
            "HTTP_CLIENT_CERT_CHAIN",
        ] {
            assert!(!is_of_request(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn no_field_passes_for_what_a_program_trusts() {
        let all = of("GET / HTTP/1.1\r\nHost: a\r\nProxy: http://evil\r\npRoXy: x\r\n\
                      X_Forwarded_For: 1\r\nConnection: close\r\nProxy-Authorization: b\r\n\
                      HTTPS: on\r\nSSL-Client-Verify: SUCCESS\r\nssl-client-s-dn: CN=a\r\n\
                      SSL_CLIENT_VERIFY: SUCCESS\r\nSSL-Protocol: TLSv1.3\r\n\
                      Client-Cert: :MA==:\r\nClient-Cert-Chain: :MA==:\r\n\
                      X-Ok: yes\r\n\r\n");
        let is_claim =
            |name: &str| ["SSL_", "HTTPS", "CLIENT_CERT"].iter().any(|claim| name.contains(claim));
        assert!(!all.iter().any(|(name, _)| is_claim(name)), "{all:?}");
        assert_eq!(value(&all, "HTTP_PROXY"), None);
        assert_eq!(value(&all, "HTTP_X_FORWARDED_FOR"), None);
        assert_eq!(value(&all, "HTTP_CONNECTION"), None);
        assert_eq!(value(&all, "HTTP_PROXY_AUTHORIZATION"), None);
        assert_eq!(value(&all, "HTTP_X_OK"), Some("yes"));
        assert_eq!(value(&all, "SERVER_PORT"), Some("80"));
    }
}
