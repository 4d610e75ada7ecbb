//! What a dynamic reply of SPECweb99 must be: a page that tells about the request, with the file in
//! it, its advertisement replaced or not, and a cookie.

use std::net::IpAddr;

use flyball_http::h1::AnswerHead;
use flyball_sys::clock;

use super::ads::Found;
use crate::field;
use crate::fileset::FileContent;
use crate::workload::Content;

/// What ends the part of a page before the file.
const OPENED: &[u8] = b"<pre>";

/// What follows the file, blanks and line ends aside.
const TAIL: &[u8] = b"</pre></body></html>";

/// Most bytes before the file.
const HEAD_MAX: usize = 4096;

/// Most bytes after it.
const TAIL_MAX: usize = 64;

/// What the title of a page is.
const TITLE: &str = "<title>SPECweb99 Dynamic GET & POST Test</title>";

/// How far apart the clocks of both sides may be where an ad expires, in seconds.
const CLOCKS_S: i64 = 2;

/// A rule that a dynamic reply can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Status 200, a length, and a connection that stays.
    Framing,
    /// The cookie that the request earns, and none where it earns none.
    Cookie,
    /// The page before the file: title, server, address of the client, script and query.
    Head,
    /// The file, whole, with the advertisement that was chosen.
    File,
    /// The end of the page.
    Tail,
}

/// All rules, in the order of reports.
pub const RULES: [Rule; 5] = [Rule::Framing, Rule::Cookie, Rule::Head, Rule::File, Rule::Tail];

impl Rule {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Rule::Framing => "framing",
            Rule::Cookie => "cookie",
            Rule::Head => "head",
            Rule::File => "file",
            Rule::Tail => "tail",
        }
    }
}

/// The cookie of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cookie {
    /// None.
    Absent,
    /// The ad that was chosen; `None` is that none matched.
    Found(Option<Found>),
    /// The user who posted.
    User(u32),
}

/// The page that a request asks for.
#[derive(Clone, Debug)]
pub struct Page {
    pub(super) script: String,
    pub(super) query: String,
    pub(super) content: FileContent,
    pub(super) cookie: Cookie,
    /// Whether the connection is to stay: not with HTTP/1.0.
    pub(super) stays: bool,
}

impl Page {
    /// Whether it is the answer to what was posted, so that the server has a record of it.
    pub fn is_posted(&self) -> bool {
        matches!(self.cookie, Cookie::User(_))
    }

    /// The same of a request by HTTP/1.0, after which the connection ends.
    pub(crate) fn of_http10(&self) -> Page {
        Page { stays: false, ..self.clone() }
    }

    fn is_cookie_right(&self, value: Option<&str>) -> bool {
        match self.cookie {
            Cookie::Absent => value.is_none(),
            Cookie::User(user) => cookie_of(value, "my_cookie") == Some(&user.to_string()),
            Cookie::Found(found) => {
                let given = cookie_of(value, "found_cookie").unwrap_or_default();
                let Some(found) = found else { return given == "Ad_id=-1&Ad_weight=0&Expired=1" };
                let start = format!("Ad_id={}&Ad_weight={}&Expired=", found.ad, found.weight);
                let ahead_s = found.expires_s - (clock::unix_ms() / 1000) as i64;
                match given.strip_prefix(start.as_str()) {
                    Some("0") => ahead_s >= -CLOCKS_S,
                    Some("1") => ahead_s <= CLOCKS_S,
                    _ => false,
                }
            }
        }
    }

    fn is_head_right(&self, head: &[u8]) -> bool {
        let Ok(head) = str::from_utf8(head) else { return false };
        let value = |name: &str| {
            let start = format!("<p>{name} = ");
            let (_, rest) = head.split_once(start.as_str())?;
            let end = rest.find("<p>").or_else(|| rest.find("<pre>")).unwrap_or(rest.len());
            Some(rest[..end].trim())
        };
        head.trim_start().starts_with("<html>")
            && head.contains(TITLE)
            && value("SERVER_SOFTWARE").is_some_and(|name| !name.is_empty())
            && value("REMOTE_ADDR").is_some_and(|address| address.parse::<IpAddr>().is_ok())
            && value("SCRIPT_NAME") == Some(&self.script)
            && value("QUERY_STRING") == Some(&self.query)
    }
}

/// The value of a cookie of this name, up to its attributes.
fn cookie_of<'a>(field: Option<&'a str>, name: &str) -> Option<&'a str> {
    let first = field?.split(';').next()?.trim();
    first.strip_prefix(name)?.strip_prefix('=')
}

/// How far into a page its reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Head,
    /// Right behind what opens the file: a line end may come first.
    Opened,
    File,
    Tail,
}

/// What was seen of one page; it is used for page after page.
#[derive(Debug, Default)]
pub struct PageSeen {
    stage: Stage,
    text: Vec<u8>,
    /// Bytes of the file so far.
    file: u64,
    broken: Option<Rule>,
}

impl PageSeen {
    /// The head of a reply has come: as it was parsed, and its bytes.
    pub fn begin(&mut self, page: &Page, head: AnswerHead, bytes: &[u8]) {
        self.text.clear();
        (self.stage, self.file, self.broken) = (Stage::Head, 0, None);
        if head.status != 200 || head.length.is_none() || page.stays && !head.keep_alive {
            self.broke(Rule::Framing);
        } else if !page.is_cookie_right(field::value(bytes, "set-cookie")) {
            self.broke(Rule::Cookie);
        }
    }

    /// Takes bytes of the body; `verify` compares those of the file.
    pub fn take(&mut self, page: &Page, mut bytes: &[u8], verify: bool) {
        while !bytes.is_empty() && self.broken.is_none() {
            match self.stage {
                Stage::Head => bytes = self.take_head(page, bytes),
                Stage::Opened => {
                    bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
                    self.stage = Stage::File;
                }
                Stage::File => {
                    let left = page.content.size() - self.file;
                    let (own, rest) =
                        bytes.split_at(bytes.len().min(usize::try_from(left).unwrap_or(0)));
                    if verify && !page.content.matches(self.file, own) {
                        self.broke(Rule::File);
                    }
                    self.file += own.len() as u64;
                    bytes = rest;
                    if self.file == page.content.size() {
                        self.stage = Stage::Tail;
                        self.text.clear();
                    }
                }
                Stage::Tail => {
                    self.text.extend(bytes.iter().filter(|byte| !byte.is_ascii_whitespace()));
                    if self.text.len() > TAIL_MAX {
                        self.broke(Rule::Tail);
                    }
                    bytes = &[];
                }
            }
        }
    }

    fn take_head<'a>(&mut self, page: &Page, bytes: &'a [u8]) -> &'a [u8] {
        let before = self.text.len();
        let room = HEAD_MAX - before;
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let from = before.saturating_sub(OPENED.len());
        let found = self.text[from..].windows(OPENED.len()).position(|five| five == OPENED);
        let Some(at) = found else {
            if self.text.len() == HEAD_MAX {
                self.broke(Rule::Head);
            }
            return &[];
        };
        let end = from + at + OPENED.len();
        self.text.truncate(end);
        if !page.is_head_right(&self.text) {
            self.broke(Rule::Head);
        }
        self.stage = Stage::Opened;
        &bytes[end - before..]
    }

    /// The page is over: the first rule that it broke, if it broke one.
    pub fn end(&mut self) -> Option<Rule> {
        if self.broken.is_none() {
            match self.stage {
                Stage::Head => self.broke(Rule::Head),
                Stage::Opened | Stage::File => self.broke(Rule::File),
                Stage::Tail if self.text != TAIL => self.broke(Rule::Tail),
                Stage::Tail => {}
            }
        }
        self.broken
    }

    fn broke(&mut self, rule: Rule) {
        self.broken.get_or_insert(rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_http::head::Version;

    const NAME: &str = "file_set/dir00003/class1_2";

    fn page(cookie: Cookie) -> Page {
        let content = FileContent::new(NAME, 3072, 1);
        let query = format!("/{NAME}");
        Page { script: "/dynamic".into(), query, content, cookie, stays: true }
    }

    fn reply(page: &Page) -> Vec<u8> {
        let mut file = vec![0; 3072];
        page.content.fill(0, &mut file);
        let head = format!(
            "<html>\n<head>{TITLE}</head>\n<body>\n<p>SERVER_SOFTWARE = x\n\
             <p>REMOTE_ADDR = 127.0.0.1\n<p>SCRIPT_NAME = /dynamic\n<p>QUERY_STRING = /{NAME}\n\
             <pre>\n"
        );
        [head.as_bytes(), &file, b"\n</pre></body></html>\n"].concat()
    }

    fn judged(page: &Page, fields: &str, body: &[u8], piece: usize) -> Option<Rule> {
        let version = Version::Http11;
        let (keep_alive, len) = (true, 0);
        let length = Some(body.len() as u64);
        let head = AnswerHead { status: 200, version, length, keep_alive, len };
        let mut seen = PageSeen::default();
        seen.begin(page, head, fields.as_bytes());
        body.chunks(piece).for_each(|bytes| seen.take(page, bytes, true));
        seen.end()
    }

    #[test]
    fn a_page_is_right_in_pieces_of_any_size() {
        let page = page(Cookie::Absent);
        let body = reply(&page);
        for piece in [1, 3, 64, 100_000] {
            assert_eq!(judged(&page, "HTTP/1.1 200 OK\r\nServer: x\r\n", &body, piece), None);
        }
    }

    #[test]
    fn each_rule_that_is_broken_is_found() {
        let page = page(Cookie::Absent);
        let body = reply(&page);
        let changed = |from: &str, to: &str| {
            let at = body.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
            [&body[..at], to.as_bytes(), &body[at + from.len()..]].concat()
        };
        assert_eq!(judged(&page, "Set-Cookie: a=b\r\n", &body, 9), Some(Rule::Cookie));
        for wrong in [
            changed("GET & POST", "GET"),
            changed("127.0.0.1", "somewhere"),
            changed("= /dynamic", "= /other"),
            changed("<p>QUERY", "<p>QUIZ"),
            vec![b'x'; 10_000],
            Vec::new(),
        ] {
            assert_eq!(judged(&page, "", &wrong, 100), Some(Rule::Head));
        }
        let file = changed("dir00000/class0_0", "dir00000/class0_1");
        assert_eq!(judged(&page, "", &file, 100), Some(Rule::File));
        assert_eq!(judged(&page, "", &body[..1_000], 100), Some(Rule::File));
        for wrong in [changed("</pre></body>", "</body>"), [&body[..], &[b'y'; 90]].concat()] {
            assert_eq!(judged(&page, "", &wrong, 100), Some(Rule::Tail));
        }
    }

    #[test]
    fn the_cookie_is_that_of_the_ad_or_of_the_user() {
        let now_s = (clock::unix_ms() / 1000) as i64;
        let found = Found { ad: 12, weight: 30, expires_s: now_s + 1_000 };
        let page = page(Cookie::Found(Some(found)));
        for (value, is_right) in [
            ("found_cookie=Ad_id=12&Ad_weight=30&Expired=0", true),
            ("found_cookie=Ad_id=12&Ad_weight=30&Expired=0; Path=/", true),
            ("found_cookie=Ad_id=12&Ad_weight=30&Expired=1", false),
            ("found_cookie=Ad_id=13&Ad_weight=30&Expired=0", false),
            ("my_cookie=Ad_id=12&Ad_weight=30&Expired=0", false),
        ] {
            assert_eq!(page.is_cookie_right(Some(value)), is_right, "{value}");
        }
        assert!(!page.is_cookie_right(None));
        let expired = Page { cookie: Cookie::Found(Some(Found { expires_s: 1, ..found })), ..page };
        let value = "found_cookie=Ad_id=12&Ad_weight=30&Expired=1";
        assert!(expired.is_cookie_right(Some(value)));
        let none = Page { cookie: Cookie::Found(None), ..expired };
        assert!(none.is_cookie_right(Some("found_cookie=Ad_id=-1&Ad_weight=0&Expired=1")));
        let user = Page { cookie: Cookie::User(10_007), ..none };
        assert!(user.is_cookie_right(Some("my_cookie=10007")));
        assert!(!user.is_cookie_right(Some("my_cookie=10008")));
    }
}
