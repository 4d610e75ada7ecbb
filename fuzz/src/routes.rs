//! Redirects, rewrites, returns and rules of access: patterns, where they lead, and the paths that
//! meet them.

use std::sync::{Arc, OnceLock};

use flyball_http::scan::{HeadScan, parse_head};
use flyball_http::{Head, Limits, Now};
use flyball_site::access::{self, AccessRule, AccessSettings, Admission};
use flyball_site::routes::{
    Holds, RedirectSettings, ReturnSettings, RewriteSettings, RouteSettings, faults,
    is_path_target, is_pattern, is_target,
};
use flyball_site::{CacheSettings, Lookup, Service, SiteSettings, Sites};

pub(crate) const WORDS: &[&[u8]] = &[
    b"\n",
    b"\n/",
    b"~^",
    b"~^/a/(.*)$",
    b"~(?i)",
    b"(a|b)+",
    b"[^/]+",
    b"{1,9}",
    b"\\d",
    b"\\",
    b"*",
    b"/*",
    b"$1",
    b"$2",
    b"$host",
    b"$$",
    b"$",
    b"https://a.test",
    b"http://",
    b"//",
    b"/",
    b"#f",
    b"?q=1",
    b"%2f",
    b"%0d%0a",
    b"%00",
    b"%C3%A9",
    b"\xc3\xa9",
    b"..",
    b".",
    b":",
    b"\t",
];

/// A first byte that says whether it is a redirect, a rewrite, a return or a rule of access; then
/// lines: a pattern, where it leads, and the target of a request. What passes the checks of the
/// settings never panics, and a redirect leads where a field value may, and on this host unless it
/// names another.
///
/// # Panics
/// When it does not.
pub fn routes(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let mut lines = text.split(|byte| *byte == b'\n');
    let mut text = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
    let (Some(from), Some(to)) = (text(), text()) else { return };
    let Some(target) = lines.next() else { return };
    if !is_pattern(from) || from.chars().chain(to.chars()).any(char::is_control) {
        return;
    }
    let (from, to) = (from.to_owned(), to.to_owned());
    let (mut routes, mut access) = (RouteSettings::default(), AccessSettings::default());
    match kind % 4 {
        0 if is_target(&to) => {
            routes.redirects.push(RedirectSettings { from, to: to.clone(), status: 302 });
        }
        1 if is_path_target(&to) => {
            let holds = if kind & 4 == 0 { Holds::Always } else { Holds::NoFile };
            routes.rewrites.push(RewriteSettings { from, to: to.clone(), holds });
        }
        2 => routes.returns.push(ReturnSettings { path: None, pattern: Some(from), status: 410 }),
        3 => {
            let deny = ["0.0.0.0/0", "::/0"].map(|all| all.parse().expect("a network")).into();
            let admission = Admission { allow: Vec::new(), deny };
            access.rules.push(AccessRule { path: None, pattern: Some(from), admission });
        }
        _ => {}
    }
    if !faults(&routes).is_empty() || !access::faults(&access).is_empty() {
        return;
    }
    ask(routes, access, to.starts_with('/'), target);
}

fn ask(routes: RouteSettings, access: AccessSettings, stays: bool, target: &[u8]) {
    let bytes = [b"GET ", target, b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    let (limits, mut head) = (Limits::default(), Head::default());
    let Ok(Some(end)) = HeadScan::default().advance(&bytes, &limits) else { return };
    if parse_head(&bytes[..end], &limits, &mut head).is_err() {
        return;
    }
    let site = SiteSettings { routes, access, root: Some("/".into()), ..SiteSettings::default() };
    let sites = Arc::new(Sites::open(&[site], &Default::default()).expect("it opens"));
    let mut service = Service::new(sites, caches().clone());
    // Twice: the second time it may come from the cache.
    for _ in 0..2 {
        match service.lookup(head.request(&bytes), &Now::new(0, 0)) {
            Lookup::Answer(answer) => check_fields(answer.fields.lines().h1(), stays),
            // A file is looked for, which is not done here.
            Lookup::Wait(_) => {}
            Lookup::Stream(..) | Lookup::Respond(_) => {
                panic!("nothing of the kind was asked for")
            }
        }
    }
}

fn caches() -> &'static CacheSettings {
    static CACHES: OnceLock<CacheSettings> = OnceLock::new();
    CACHES.get_or_init(CacheSettings::default)
}

fn check_fields(fields: &[u8], stays: bool) {
    let text = fields.escape_ascii();
    assert!(fields.ends_with(b"\r\n"), "{text}");
    let lines = fields[..fields.len() - 2].split(|byte| *byte == b'\n');
    let count = lines.clone().count();
    for (at, line) in lines.enumerate() {
        let line = if at + 1 < count { line.strip_suffix(b"\r") } else { Some(line) };
        let line = line.unwrap_or_else(|| panic!("a bare LF: {text}"));
        assert!(!line.is_empty() && !line.contains(&b'\r'), "{text}");
        let Some(location) = line.strip_prefix(b"Location: ") else { continue };
        assert!(location.iter().all(|byte| matches!(byte, b'!'..=b'~')), "{text}");
        assert!(!stays || location.starts_with(b"/"), "{text}");
        assert!(!stays || !location.starts_with(b"//"), "another host: {text}");
    }
}
