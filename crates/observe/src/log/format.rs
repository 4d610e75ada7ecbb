//! What a line of the access log holds: compiled once, at the start.

use flyball_http::Name;
use flyball_http::{End, Remote, Request, Secured, Status};

use crate::text::{self, Dates, Style};
use crate::waited::Waited;

/// Longest format that can be written, in bytes.
pub const FORMAT_BYTES_MAX: usize = 1024;

/// The common log format of NCSA httpd.
const COMMON: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                      $bytes_sent";

/// The common format with two fields more.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                        $bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// An object of JSON for each line.
const JSON: &str = "{\"time\":\"$time_iso8601\",\"remote_addr\":\"$remote_addr\",\
                    \"remote_user\":\"$remote_user\",\
                    \"host\":\"$host\",\"method\":\"$method\",\"path\":\"$path\",\
                    \"query\":\"$query\",\"protocol\":\"$protocol\",\"status\":$status,\
                    \"bytes_sent\":$bytes_sent,\"referer\":\"$http_referer\",\
                    \"user_agent\":\"$http_user_agent\",\"duration_us\":$duration_us,\
                    \"worker\":$worker,\"end\":\"$end\",\"sent\":$sent,\
                    \"first_byte_us\":$first_byte_us,\"request_us\":$request_us,\
                    \"backend_us\":$backend_us,\"time_ms\":$time_ms,\
                    \"queued_ms\":$queued_ms,\"age_ms\":$age_ms,\
                    \"request_id\":\"$request_id\"";

/// What such an object has besides where the connection spoke TLS.
const JSON_OVER_TLS: &str = ",\"ssl_protocol\":\"$ssl_protocol\",\"ssl_cipher\":\"$ssl_cipher\",\
                             \"ssl_group\":\"$ssl_group\",\
                             \"ssl_server_name\":\"$ssl_server_name\",\
                             \"ssl_session_reused\":\"$ssl_session_reused\",\
                             \"ssl_client_s_dn\":\"$ssl_client_s_dn\",\
                             \"ssl_client_fingerprint\":\"$ssl_client_fingerprint\"";

/// What a line of the access log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFormat {
    items: Vec<Item>,
    /// Those of its fields that are known when the answer has ended, in their order.
    late: Vec<Field>,
    style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// As it stands in the format.
    Text(Vec<u8>),
    Field(Field),
    /// A field of the request that the parser keeps.
    Known(Name),
    /// Any other field of the request.
    Header(Vec<u8>),
    /// What stands there only where the connection spoke TLS.
    OverTls(Vec<Item>),
}

macro_rules! fields {
    ($($name:ident $text:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Field { $($name),* }

        /// The names of all fields but those of requests, which are `$http_` and a name.
        const FIELDS: &[(&str, Field)] = &[$(($text, Field::$name)),*];
    };
}

fields! {
    RemoteAddr "remote_addr",
    RemoteUser "remote_user",
    TimeLocal "time_local",
    TimeIso "time_iso8601",
    RequestLine "request",
    Method "method",
    Path "path",
    Query "query",
    Protocol "protocol",
    Status "status",
    BytesSent "bytes_sent",
    Sent "sent",
    End "end",
    Host "host",
    DurationUs "duration_us",
    FirstByteUs "first_byte_us",
    RequestUs "request_us",
    BackendUs "backend_us",
    TimeMs "time_ms",
    QueuedMs "queued_ms",
    AgeMs "age_ms",
    Worker "worker",
    RequestId "request_id",
    SslProtocol "ssl_protocol",
    SslCipher "ssl_cipher",
    SslGroup "ssl_group",
    SslServerName "ssl_server_name",
    SslResumed "ssl_session_reused",
    SslClient "ssl_client_s_dn",
    SslFingerprint "ssl_client_fingerprint",
}

/// What begins the name of a field of the request.
const HEADER: &str = "http_";

/// Why a text is no format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatError {
    /// It names no field at all, and is no name of a format.
    NoField,
    /// There is no field of this name.
    UnknownField(String),
    /// It is longer than [`FORMAT_BYTES_MAX`], or has a byte that would break a line.
    Malformed,
}

/// One request, as far as it is known when its answer is.
pub(super) struct Record<'a> {
    /// `None` when it was refused before it was understood.
    pub(super) request: Option<&'a Request<'a>>,
    /// What was agreed on for its connection, if that spoke TLS.
    pub(super) secured: Option<&'a Secured>,
    pub(super) client: Remote,
    /// Who has logged in.
    pub(super) user: Option<&'a [u8]>,
    pub(super) status: Status,
    pub(super) duration_us: Option<u64>,
    pub(super) waited: Waited,
    pub(super) unix_ms: u64,
    pub(super) worker: usize,
    pub(super) id: [u64; 2],
}

/// What is known of it when its answer has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    /// Bytes of the body that were sent.
    pub(super) sent: Option<u64>,
    pub(super) first_byte_us: Option<u64>,
    pub(super) request_us: Option<u64>,
    pub(super) backend_us: Option<u64>,
}

/// Longest that a field is which [`Ended`] fills in, in bytes.
pub(super) const LATE_BYTES_MAX: usize = 20;

impl Default for LogFormat {
    fn default() -> LogFormat {
        LogFormat::compiled(COMBINED, Style::Plain)
    }
}

impl LogFormat {
    /// What a valid format looks like.
    pub const FORM: &str =
        "common, combined, json, or a text with fields such as $remote_addr and $http_referer";

    /// The format of this name, or of these fields. `$$` is a dollar.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<LogFormat, FormatError> {
        match text {
            "common" => Ok(LogFormat::compiled(COMMON, Style::Plain)),
            "combined" => Ok(LogFormat::compiled(COMBINED, Style::Plain)),
            "json" => Ok(LogFormat::json()),
            _ if text.len() > FORMAT_BYTES_MAX || text.bytes().any(|b| b < b' ' || b == 0x7f) => {
                Err(FormatError::Malformed)
            }
            _ => {
                let items = items_of(text)?;
                let has_field = items.iter().any(|item| !matches!(item, Item::Text(_)));
                let format = has_field.then(|| LogFormat::of(items, Style::Plain));
                format.ok_or(FormatError::NoField)
            }
        }
    }

    /// The names of the fields, each with its dollar.
    pub fn fields() -> impl Iterator<Item = String> {
        let headers = ["http_referer", "http_user_agent"];
        let names = FIELDS.iter().map(|(name, _)| *name).chain(headers);
        names.map(|name| format!("${name}"))
    }

    /// A format of our own, which has no unknown field.
    fn compiled(text: &str, style: Style) -> LogFormat {
        let items = items_of(text);
        debug_assert!(items.is_ok(), "{text}");
        LogFormat::of(items.unwrap_or_default(), style)
    }

    fn json() -> LogFormat {
        let mut format = LogFormat::compiled(JSON, Style::Json);
        let of_tls = LogFormat::compiled(JSON_OVER_TLS, Style::Json);
        format.items.extend([Item::OverTls(of_tls.items), Item::Text(b"}".to_vec())]);
        format
    }

    fn of(items: Vec<Item>, style: Style) -> LogFormat {
        let late = |item: &Item| match item {
            Item::Field(field) => Some(*field).filter(|field| field.is_late()),
            _ => None,
        };
        let late = items.iter().filter_map(late).collect();
        LogFormat { items, late, style }
    }

    /// Whether it wants to know how long a request took until its answer was known.
    pub(super) fn is_timed(&self) -> bool {
        self.items.contains(&Item::Field(Field::DurationUs))
    }

    /// Whether it wants to know how long requests have waited in the kernel.
    pub fn asks_ages(&self) -> bool {
        let asks = |field| self.items.contains(&Item::Field(field));
        asks(Field::QueuedMs) || asks(Field::AgeMs)
    }

    /// Whether it wants to know how long the answer took.
    pub(super) fn times_answers(&self) -> bool {
        let timed = [Field::FirstByteUs, Field::RequestUs, Field::BackendUs];
        self.late.iter().any(|field| timed.contains(field))
    }

    /// Those of its fields that are known when the answer has ended, in their order.
    pub(super) fn late(&self) -> &[Field] {
        &self.late
    }

    /// Whether it wants to know who has logged in.
    pub(super) fn names_users(&self) -> bool {
        self.items.contains(&Item::Field(Field::RemoteUser))
    }

    /// Whether it wants a number for each request.
    pub(super) fn has_ids(&self) -> bool {
        self.items.contains(&Item::Field(Field::RequestId))
    }

    /// Appends a line without its end, and tells in `holes` where a late field is to be filled in.
    /// Of what a client chose, at most `most` bytes of each field.
    pub(super) fn write(
        &self,
        record: &Record<'_>,
        dates: &Dates,
        most: usize,
        (out, holes): (&mut Vec<u8>, &mut Vec<usize>),
    ) {
        for item in &self.items {
            self.item(item, (record, dates), most, (out, holes));
        }
    }

    fn item(
        &self,
        item: &Item,
        (record, dates): (&Record<'_>, &Dates),
        most: usize,
        (out, holes): (&mut Vec<u8>, &mut Vec<usize>),
    ) {
        let request = record.request;
        match item {
            Item::Text(text) => out.extend_from_slice(text),
            Item::Field(field) => match field {
                Field::RemoteAddr => text::client(record.client, out),
                Field::RemoteUser => self.name(record.user, most, out),
                Field::TimeLocal => out.extend_from_slice(dates.local()),
                Field::TimeIso => out.extend_from_slice(dates.iso()),
                Field::Status => text::number(u64::from(record.status.code()), out),
                field if field.is_late() => holes.push(out.len()),
                Field::DurationUs => self.number(record.duration_us, out),
                Field::QueuedMs => self.number(record.waited.queued_ms.map(u64::from), out),
                Field::AgeMs => self.number(record.waited.age_ms.map(u64::from), out),
                Field::TimeMs => text::number(record.unix_ms, out),
                Field::Worker => text::number(record.worker as u64, out),
                Field::RequestId => record.id.iter().for_each(|n| text::hexadecimal(*n, out)),
                Field::RequestLine => match request {
                    None => out.push(b'-'),
                    Some(request) => {
                        text::escape(request.method_token(), most, self.style, out);
                        out.push(b' ');
                        text::escape(request.target(), most, self.style, out);
                        out.push(b' ');
                        out.extend_from_slice(protocol(request));
                    }
                },
                field => {
                    let of_request = request.and_then(|request| of_request(*field, request));
                    let of_tls = || of_tls(*field, record.secured?).map(str::as_bytes);
                    self.client_chose(of_request.or_else(of_tls), most, out);
                }
            },
            Item::Known(name) => {
                self.client_chose(request.and_then(|r| r.value(*name)), most, out);
            }
            Item::Header(name) => {
                self.client_chose(request.and_then(|r| r.field(name)), most, out);
            }
            Item::OverTls(items) => {
                for item in items.iter().filter(|_| record.secured.is_some()) {
                    self.item(item, (record, dates), most, (out, holes));
                }
            }
        }
    }

    /// Appends what a client chose, or that it said nothing.
    fn client_chose(&self, text: Option<&[u8]>, most: usize, out: &mut Vec<u8>) {
        match (text, self.style) {
            (Some(text), style) => text::escape(text, most, style, out),
            (None, Style::Plain) => out.push(b'-'),
            (None, Style::Json) => {}
        }
    }

    /// Appends a late field.
    pub(super) fn fill(&self, field: Field, ended: &Ended, out: &mut Vec<u8>) {
        match field {
            Field::End => out.extend_from_slice(ended.end.word().as_bytes()),
            Field::FirstByteUs => self.number(ended.first_byte_us, out),
            Field::RequestUs => self.number(ended.request_us, out),
            Field::BackendUs => self.number(ended.backend_us, out),
            _ => self.number(ended.sent, out),
        }
    }

    /// A name, which breaks no line into other words than it has.
    fn name(&self, name: Option<&[u8]>, most: usize, out: &mut Vec<u8>) {
        match (name, self.style) {
            (Some(name @ [_, ..]), Style::Plain) => {
                let (name, cut) = (&name[..name.len().min(most)], name.len() > most);
                for (at, word) in name.split(|byte| *byte == b' ').enumerate() {
                    out.extend_from_slice(if at > 0 { b"\\x20" } else { b"" });
                    text::escape(word, most, self.style, out);
                }
                out.extend_from_slice(if cut { b"..." } else { b"" });
            }
            (None | Some([]), Style::Plain) => out.push(b'-'),
            (name, Style::Json) => text::escape(name.unwrap_or_default(), most, self.style, out),
        }
    }

    /// A number that may not be known.
    fn number(&self, n: Option<u64>, out: &mut Vec<u8>) {
        match (n, self.style) {
            (Some(n), _) => text::number(n, out),
            (None, Style::Plain) => out.push(b'-'),
            (None, Style::Json) => out.extend_from_slice(b"null"),
        }
    }
}

impl Field {
    /// Whether it is known when the answer has ended, and not before.
    fn is_late(self) -> bool {
        let sizes = matches!(self, Field::BytesSent | Field::Sent | Field::End);
        sizes || matches!(self, Field::FirstByteUs | Field::RequestUs | Field::BackendUs)
    }
}

/// What a field tells of a request, if there is anything to tell.
fn of_request<'a>(field: Field, request: &Request<'a>) -> Option<&'a [u8]> {
    let told = match field {
        Field::Protocol => protocol(request),
        Field::Method => request.method_token(),
        Field::Path => request.path(),
        Field::Query => return Some(request.query()).filter(is_there),
        Field::Host => return Some(request.host()).filter(is_there),
        _ => return None,
    };
    Some(told)
}

/// What a field tells of a connection over TLS, if there is anything to tell.
fn of_tls(field: Field, secured: &Secured) -> Option<&str> {
    let client = secured.client.as_deref();
    match field {
        Field::SslProtocol => Some(secured.version),
        Field::SslCipher => Some(secured.cipher),
        Field::SslGroup => secured.group,
        Field::SslServerName => secured.name.as_deref(),
        Field::SslResumed => Some(if secured.is_resumed { "r" } else { "." }),
        Field::SslClient => client.map(|client| client.subject.as_str()),
        Field::SslFingerprint => client.map(|client| client.fingerprint.as_str()),
        _ => None,
    }
}

fn is_there(text: &&[u8]) -> bool {
    !text.is_empty()
}

fn protocol<'a>(request: &Request<'a>) -> &'a [u8] {
    request.head.version.as_str().as_bytes()
}

fn items_of(text: &str) -> Result<Vec<Item>, FormatError> {
    let mut items: Vec<Item> = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        add_text(&rest[..dollar], &mut items);
        let after = &rest[dollar + 1..];
        if let Some(after) = after.strip_prefix('$') {
            add_text("$", &mut items);
            rest = after;
            continue;
        }
        let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let len = after.bytes().take_while(is_name).count();
        let (name, after) = after.split_at(len);
        items.push(item_of(name).ok_or_else(|| FormatError::UnknownField(format!("${name}")))?);
        rest = after;
    }
    add_text(rest, &mut items);
    Ok(items)
}

fn add_text(text: &str, items: &mut Vec<Item>) {
    match items.last_mut() {
        _ if text.is_empty() => {}
        Some(Item::Text(before)) => before.extend_from_slice(text.as_bytes()),
        _ => items.push(Item::Text(text.as_bytes().to_vec())),
    }
}

fn item_of(name: &str) -> Option<Item> {
    if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) {
        return Some(Item::Field(*field));
    }
    let header = name.strip_prefix(HEADER).filter(|name| !name.is_empty())?;
    let header = header.replace('_', "-").to_ascii_lowercase().into_bytes();
    Some(Name::from_bytes(&header).map_or_else(|| Item::Header(header), Item::Known))
}

#[cfg(test)]
mod tests {
    use super::super::open::OpenLines;
    use super::*;
    use flyball_http::{ClientCertificate, Head, Limits, Now, scan};

    const REQUEST: &[u8] = b"GET /a%20\"b?q=\\1 HTTP/1.1\r\nHost: x.test:80\r\nX-Trace: t 1\r\n\
                             User-Agent: me\xe9\r\nX-Trace-Id: no\r\n\r\n";

    fn line(format: &str, bytes: Option<&[u8]>) -> String {
        line_over(None, format, bytes)
    }

    fn line_over(secured: Option<&Secured>, format: &str, bytes: Option<&[u8]>) -> String {
        let mut head = Head::default();
        let request = bytes.map(|bytes| {
            scan::parse_head(bytes, &Limits::default(), &mut head).unwrap();
            head.request(bytes)
        });
        let record = Record {
            request: request.as_ref(),
            secured,
            client: Remote::Ip([192, 0, 2, 7].into()),
            user: bytes.map(|_| &b"ann \"a\" b"[..]),
            status: Status::OK,
            duration_us: Some(12),
            waited: Waited { queued_ms: Some(52), age_ms: None },
            unix_ms: 784_111_777_123,
            worker: 3,
            id: [1, 0xabc],
        };
        let ended = Ended {
            end: End::Left,
            sent: request.map(|_| 5),
            first_byte_us: Some(7),
            request_us: Some(99),
            backend_us: None,
        };
        let mut dates = Dates::new();
        dates.set(&Now::new(0, 784_111_777_000));
        let (format, mut lines) = (LogFormat::parse(format).unwrap(), OpenLines::default());
        format.write(&record, &dates, 100, (&mut lines.text, &mut lines.holes));
        lines.push((End::Whole, 0, 0));
        let mut out = Vec::new();
        lines.take_oldest(&format, &ended, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_formats_of_a_name_are_exactly_these() {
        let common = "192.0.2.7 - ann\\x20\\x22a\\x22\\x20b [06/Nov/1994:08:49:37 +0000] \
                      \"GET /a%20\\x22b?q=\\x5c1 HTTP/1.1\" 200 5";
        assert_eq!(line("common", Some(REQUEST)), common);
        assert_eq!(line("combined", Some(REQUEST)), format!("{common} \"-\" \"me\\xe9\""));
        assert_eq!(
            line("json", Some(REQUEST)),
            "{\"time\":\"1994-11-06T08:49:37Z\",\"remote_addr\":\"192.0.2.7\",\
             \"remote_user\":\"ann \\\"a\\\" b\",\
             \"host\":\"x.test\",\"method\":\"GET\",\"path\":\"/a%20\\\"b\",\"query\":\"q=\\\\1\",\
             \"protocol\":\"HTTP/1.1\",\"status\":200,\"bytes_sent\":5,\"referer\":\"\",\
             \"user_agent\":\"me\\u00e9\",\"duration_us\":12,\"worker\":3,\
             \"end\":\"left\",\"sent\":5,\"first_byte_us\":7,\"request_us\":99,\
             \"backend_us\":null,\"time_ms\":784111777123,\"queued_ms\":52,\"age_ms\":null,\
             \"request_id\":\"00000000000000010000000000000abc\"}"
        );
    }

    #[test]
    fn a_request_that_was_not_understood_has_no_fields() {
        assert_eq!(
            line("combined", None),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"-\" 200 - \"-\" \"-\""
        );
        let json: serde_json::Value = serde_json::from_str(&line("json", None)).unwrap();
        assert_eq!((&json["method"], &json["bytes_sent"]), (&"".into(), &().into()));
    }

    #[test]
    fn a_line_of_a_connection_over_tls_tells_of_it_also_where_no_request_was_understood() {
        let client = ClientCertificate {
            subject: "CN=\"a\"".into(),
            fingerprint: "ab".into(),
            ..ClientCertificate::default()
        };
        let (version, cipher, group) = ("TLSv1.3", "TLS_AES_256_GCM_SHA384", Some("X25519"));
        let secured = Secured { version, cipher, group, ..Secured::default() };
        let named = Secured {
            name: Some("a.test".into()),
            is_resumed: true,
            client: Some(Box::new(client)),
            ..secured.clone()
        };
        let format =
            "$ssl_protocol $ssl_group $ssl_server_name $ssl_session_reused $ssl_client_s_dn";
        for bytes in [None, Some(REQUEST)] {
            let told = line_over(Some(&named), format, bytes);
            assert_eq!(told, "TLSv1.3 X25519 a.test r CN=\\x22a\\x22");
            assert_eq!(line_over(Some(&secured), format, bytes), "TLSv1.3 X25519 - . -");
            let in_clear = line("json", bytes);
            let start = in_clear.strip_suffix('}').unwrap();
            let of_tls = |name: &str, reused: &str, client: &str, fingerprint: &str| {
                format!(
                    ",\"ssl_protocol\":\"TLSv1.3\",\"ssl_cipher\":\"TLS_AES_256_GCM_SHA384\",\
                     \"ssl_group\":\"X25519\",\"ssl_server_name\":\"{name}\",\
                     \"ssl_session_reused\":\"{reused}\",\"ssl_client_s_dn\":\"{client}\",\
                     \"ssl_client_fingerprint\":\"{fingerprint}\"}}"
                )
            };
            let told = line_over(Some(&named), "json", bytes);
            assert_eq!(told, format!("{start}{}", of_tls("a.test", "r", "CN=\\\"a\\\"", "ab")));
            let told = line_over(Some(&secured), "json", bytes);
            assert_eq!(told, format!("{start}{}", of_tls("", ".", "", "")));
        }
    }

    #[test]
    fn fields_may_be_put_together_at_will() {
        for (format, expected) in [
            ("$method $path $query $protocol", "GET /a%20\\x22b q=\\x5c1 HTTP/1.1"),
            ("[$host]$status|$worker|$duration_us", "[x.test]200|3|12"),
            ("$http_x_trace-$http_host", "t 1-x.test:80"),
            ("$http_X_Trace_ID,$http_x,$http_trace", "no,-,-"),
            ("$$$status$$", "$200$"),
            ("$request_id", "00000000000000010000000000000abc"),
            ("$end $sent$bytes_sent,$time_ms", "left 55,784111777123"),
            ("$end", "left"),
            ("<$first_byte_us $request_us $backend_us>", "<7 99 ->"),
            ("$queued_ms/$age_ms", "52/-"),
        ] {
            assert_eq!(line(format, Some(REQUEST)), expected, "{format}");
        }
        let bare = b"GET / HTTP/1.0\r\n\r\n";
        assert_eq!(line("$query $host $http_x_trace $protocol", Some(bare)), "- - - HTTP/1.0");
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for (format, error) in [
            ("", FormatError::NoField),
            ("combine", FormatError::NoField),
            ("$$", FormatError::NoField),
            ("$reqest", FormatError::UnknownField("$reqest".into())),
            ("$status $", FormatError::UnknownField("$".into())),
            ("$http_", FormatError::UnknownField("$http_".into())),
            ("$status\n", FormatError::Malformed),
            (&"$status ".repeat(200), FormatError::Malformed),
        ] {
            assert_eq!(LogFormat::parse(format), Err(error), "{format}");
        }
        assert!(LogFormat::fields().all(|field| LogFormat::parse(&field).is_ok()));
    }
}
