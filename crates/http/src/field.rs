//! Field names and values (RFC 9110, section 5): their grammar, and the names that are known.

/// Strips optional white space (RFC 9110, section 5.6.3).
pub(crate) fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// The characters of a token (RFC 9110, section 5.6.2).
static TOKEN: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9'
            | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
            | b'`' | b'|' | b'~');
        byte += 1;
    }
    table
};

/// True for the characters of a token.
pub fn is_token(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

/// True for a field name.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| is_token(byte))
}

/// True for a field value, white space around it or not (RFC 9110, section 5.5).
pub fn is_value(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
}

macro_rules! names {
    ($($len:literal: { $($variant:ident $text:literal),* $(,)? })*) => {
        /// The field names that the server knows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Name { $($(#[doc = $text] $variant),*),* }

        impl Name {
            /// The name's enumerator, compared without regard to case; `None` when unknown.
            pub fn from_bytes(name: &[u8]) -> Option<Name> {
                match name.len() {
                    $($len => {
                        $(const { assert!($text.len() == $len) };
                        if name.eq_ignore_ascii_case($text.as_bytes()) {
                            return Some(Name::$variant);
                        })*
                    })*
                    _ => {}
                }
                None
            }

            /// The name as it is mostly spelled.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Name::$variant => $text),*),* }
            }
        }
    };
}

names! {
    2: { Te "TE" }
    4: { Host "Host", Date "Date", Vary "Vary", ETag "ETag" }
    5: { Range "Range", Allow "Allow", Proxy "Proxy" }
    6: { Accept "Accept", Expect "Expect", Server "Server", Status "Status", Digest "Digest" }
    7: { Referer "Referer", Trailer "Trailer", Upgrade "Upgrade" }
    8: { IfMatch "If-Match", IfRange "If-Range", Location "Location" }
    9: { Forwarded "Forwarded" }
    10: {
        Connection "Connection",
        UserAgent "User-Agent",
        KeepAlive "Keep-Alive",
        XSendfile "X-Sendfile",
    }
    11: { ContentMd5 "Content-MD5", ReprDigest "Repr-Digest", RetryAfter "Retry-After" }
    12: { ContentType "Content-Type" }
    13: {
        IfNoneMatch "If-None-Match",
        Authorization "Authorization",
        CacheControl "Cache-Control",
        LastModified "Last-Modified",
        AcceptRanges "Accept-Ranges",
        ContentRange "Content-Range",
    }
    14: { ContentLength "Content-Length", ContentDigest "Content-Digest" }
    15: {
        AcceptEncoding "Accept-Encoding",
        AcceptLanguage "Accept-Language",
        XForwardedFor "X-Forwarded-For",
    }
    16: {
        ContentEncoding "Content-Encoding",
        ContentLanguage "Content-Language",
        ProxyConnection "Proxy-Connection",
        WwwAuthenticate "WWW-Authenticate",
        XAccelRedirect "X-Accel-Redirect",
    }
    17: { TransferEncoding "Transfer-Encoding", IfModifiedSince "If-Modified-Since" }
    19: {
        IfUnmodifiedSince "If-Unmodified-Since",
        ContentDisposition "Content-Disposition",
        ProxyAuthorization "Proxy-Authorization",
    }
    23: { ContentSecurityPolicy "Content-Security-Policy" }
}

impl Name {
    /// The bit of this name in a set of names.
    pub const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// The set of these names.
    pub const fn set(names: &[Name]) -> u64 {
        let (mut set, mut at) = (0, 0);
        while at < names.len() {
            set |= names[at].bit();
            at += 1;
        }
        set
    }

    /// Whether a name is known and in this set.
    pub fn is_any(name: &[u8], set: u64) -> bool {
        Name::from_bytes(name).is_some_and(|known| set & known.bit() != 0)
    }

    /// What speaks of one connection, and is not passed on (RFC 9110, section 7.6.1).
    pub const OF_THE_CONNECTION: u64 = Name::set(&[
        Name::Connection,
        Name::KeepAlive,
        Name::ProxyConnection,
        Name::Te,
        Name::Trailer,
        Name::TransferEncoding,
        Name::Upgrade,
    ]);
}

/// A range of bytes within the text of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes of `all` that the span covers.
    pub fn of(self, all: &[u8]) -> &[u8] {
        all.get(self.start as usize..self.end as usize).unwrap_or(&[])
    }

    /// Where `part` is within `all`, of which it is a subslice.
    pub(crate) fn within(all: &[u8], part: &[u8]) -> Span {
        let start = (part.as_ptr() as usize).wrapping_sub(all.as_ptr() as usize);
        debug_assert!(start + part.len() <= all.len());
        Span { start: start as u32, end: (start + part.len()) as u32 }
    }

    /// True when the span covers nothing.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }
}

/// A field line: where its name and its value are in the text of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) known: Option<Name>,
}

/// The field lines of a message, in order: offsets only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    list: Vec<Line>,
    /// A bit per [`Name`] that occurs.
    present: u64,
}

impl Lines {
    /// Makes these all there are.
    pub(crate) fn fill(&mut self, lines: impl Iterator<Item = Line>) {
        let mut present = 0;
        self.list.clear();
        self.list.extend(lines.inspect(|line| present |= line.known.map_or(0, Name::bit)));
        self.present = present;
    }

    pub(crate) fn push(&mut self, line: Line) {
        if let Some(name) = line.known {
            self.present |= name.bit();
        }
        self.list.push(line);
    }

    /// Whether any of the names in this set of bits occurs.
    pub(crate) fn has_any(&self, bits: u64) -> bool {
        self.present & bits != 0
    }

    pub(crate) fn all(&self) -> &[Line] {
        &self.list
    }

    /// Where the values of every line with this name are.
    pub(crate) fn of(&self, name: Name) -> impl DoubleEndedIterator<Item = Span> + Clone + use<'_> {
        let list: &[Line] = if self.has_any(name.bit()) { &self.list } else { &[] };
        list.iter().filter(move |line| line.known == Some(name)).map(|line| line.value)
    }

    /// Where the value of the first line with this name is, known or not.
    pub(crate) fn find(&self, name: &[u8], text: &[u8]) -> Option<Span> {
        if let Some(known) = Name::from_bytes(name) {
            return self.of(known).next();
        }
        let is =
            |line: &&Line| line.known.is_none() && line.name.of(text).eq_ignore_ascii_case(name);
        self.list.iter().find(is).map(|line| line.value)
    }

    /// Makes `line` the only one of its name, in front of all others.
    pub(crate) fn replace(&mut self, line: Line) {
        self.list.retain(|other| other.known != line.known);
        self.list.insert(0, line);
        self.present |= line.known.map_or(0, Name::bit);
    }
}
