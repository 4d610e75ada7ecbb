//! Request heads made of hostile bytes: nothing panics, and what is accepted keeps the rules that
//! a proxy in front of us relies on.

use flyball_http::framing::{Framing, Hop};
use flyball_http::head::TargetForm;
use flyball_http::request::Draft;
use flyball_http::scan::{HeadScan, parse_head};
use flyball_http::{Head, Limits, Method, Name, Refusal, Version};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::script::limits;

/// The outcome of `input` when it comes in pieces that end at these offsets.
fn read(
    input: &[u8],
    ends: impl IntoIterator<Item = usize>,
) -> Result<Option<(Head, Hop)>, Refusal> {
    let (limits, mut scan, mut head) = (limits(), HeadScan::default(), Head::default());
    for end in ends {
        if let Some(len) = scan.advance(&input[..end], &limits)? {
            let hop = parse_head(&input[..len], &limits, &mut head)?;
            assert_eq!(head.len, len, "the search and the parser see the same end");
            return Ok(Some((head, hop)));
        }
    }
    Ok(None)
}

/// The pieces that heads, and attacks on them, are made of.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"GET ",
        b"HEAD ",
        b"OPTIONS ",
        b"POST ",
        b"CONNECT ",
        b"/",
        b"/a?b",
        b"*",
        b"http://b/c",
        b"https://b:1",
        b"b:443",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b" HTTP/1.2\r\n",
        b"\r\n",
        b"\r\n\r\n",
        b"\r",
        b"\n",
        b"\0",
        b" ",
        b"\t",
        b":",
        b",",
        b"Host: a\r\n",
        b"Host: b:80\r\n",
        b"Host:\r\n",
        b"Host",
        b"Content-Length: 5\r\n",
        b"Content-Length: 0\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"chunked",
        b"5",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"Range: bytes=0-\r\n",
        b"X: y\r\n",
        b" folded\r\n",
        b"\xff",
        b"%2e%2e",
        b"#",
    ];
    prop_oneof![
        20 => proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec),
        1 => vec(any::<u8>(), 0..4),
    ]
}

/// Mostly whole heads with something wrong in them.
fn head_bytes() -> impl Strategy<Value = Vec<u8>> {
    let start = proptest::sample::select(vec![
        "GET / HTTP/1.1\r\nHost: a\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n",
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
        "GET http://b/a HTTP/1.0\r\n",
        "",
    ]);
    (start, vec(piece(), 0..12), proptest::bool::weighted(0.8)).prop_map(|(start, rest, ends)| {
        let end: &[u8] = if ends { b"\r\n\r\n" } else { b"" };
        [start.as_bytes(), &rest.concat(), end].concat()
    })
}

/// What is true of every head that was accepted.
fn check_accepted(input: &[u8], head: &Head, hop: &Hop) {
    let bytes = &input[..head.len];
    let text = bytes.escape_ascii().to_string();
    assert!(bytes.ends_with(b"\r\n\r\n"), "{text}");
    assert!(bytes.len() <= limits().head_bytes_max);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(bytes.get(at + 1), Some(&b'\n'), "bare CR: {text}"),
            b'\n' => assert!(at > 0 && bytes[at - 1] == b'\r', "bare LF: {text}"),
            b'\t' => {}
            _ => assert!(byte >= b' ' && byte != 0x7f, "control character: {text}"),
        }
    }
    let body = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(0);
    let lines: Vec<&[u8]> = bytes[body..bytes.len() - 4].split(|&b| b == b'\n').collect();
    let fields = &lines[1..];
    let values = |name: &str| -> Vec<&[u8]> {
        let split = fields.iter().filter_map(|line| line.split_once_byte(b':'));
        split
            .filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value.trim_ascii())
            .collect()
    };
    for line in fields {
        let (name, _) = line.split_once_byte(b':').expect("a field line has a colon");
        assert!(!name.is_empty() && !name.contains(&b' ') && !name.contains(&b'\t'), "{text}");
    }
    let hosts = values("host");
    assert!(hosts.len() <= 1, "{text}");
    assert!(head.version == Version::Http10 || hosts.len() == 1, "{text}");
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    assert!(lengths.len() <= 1 && (lengths.is_empty() || codings.is_empty()), "{text}");
    let framing = match (lengths.first(), codings.first()) {
        (_, Some(coding)) => {
            assert!(coding.eq_ignore_ascii_case(b"chunked") && codings.len() == 1, "{text}");
            assert_eq!(head.version, Version::Http11, "{text}");
            Framing::Chunked
        }
        (Some(length), None) => {
            assert!(length.iter().all(u8::is_ascii_digit), "{text}");
            let length = String::from_utf8_lossy(length).parse().expect("it was accepted");
            if length == 0 { Framing::None } else { Framing::Length(length) }
        }
        (None, None) => Framing::None,
    };
    assert_eq!((hop.framing, head.content), (framing, framing.content()), "{text}");
    check_target(bytes, head);
}

#[test]
fn the_host_of_an_absolute_target_takes_the_place_of_the_field() {
    for (target, fields, host) in [
        ("http://a.example:81/p?q", "X: 1\r\nhOsT: b.example:82\r\nY: 2\r\n", "a.example:81"),
        ("http://a.example", "Host: b.example\r\n", "a.example"),
        ("http://[::1]:/", "Host: b.example\r\n", "[::1]:"),
        ("/p", "Host: b.example:82\r\n", "b.example:82"),
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\n{fields}\r\n").into_bytes();
        let (head, _) = read(&bytes, [bytes.len()]).unwrap().unwrap();
        let request = head.request(&bytes);
        let redirected = request.redirected(b"/elsewhere").unwrap();
        for request in [request, redirected.request()] {
            let host = host.as_bytes();
            assert_eq!(request.authority(), host, "{target}");
            assert_eq!(request.field(b"hoST"), Some(host), "{target}");
            assert_eq!(request.values(Name::Host).collect::<Vec<_>>(), [host], "{target}");
            let names = request.fields().filter(|(name, _)| name.eq_ignore_ascii_case(b"host"));
            assert_eq!(names.map(|(_, value)| value).collect::<Vec<_>>(), [host], "{target}");
            assert_eq!(request.fields().count(), fields.lines().count(), "{target}");
        }
    }
    // HTTP/1.0 asks for no field, and what a program is told is the same.
    let bytes = b"GET http://a.example:81/p HTTP/1.0\r\n\r\n";
    let (head, _) = read(bytes, [bytes.len()]).unwrap().unwrap();
    assert_eq!(head.request(bytes).field(b"host"), Some(&b"a.example:81"[..]));
    assert_eq!(head.request(bytes).fields().count(), 1);
}

fn check_target(bytes: &[u8], head: &Head) {
    let request = head.request(bytes);
    let target = request.target();
    assert!(!target.is_empty() && target.len() <= limits().target_bytes_max);
    assert!(!target.iter().any(|&b| b == b' ' || b == b'#' || b < b' '), "{target:?}");
    assert!(request.path().len() + request.query().len() <= target.len());
    assert!(request.host().iter().all(|b| !b" /@?#\\".contains(b)), "{:?}", request.host());
    match head.form {
        TargetForm::Origin => assert!(target.starts_with(b"/")),
        TargetForm::Asterisk => assert_eq!((target, head.method), (&b"*"[..], Method::Options)),
        TargetForm::Absolute => assert!(!request.host().is_empty()),
        TargetForm::Authority => assert_eq!(head.method, Method::Connect),
    }
    if head.form != TargetForm::Authority && head.form != TargetForm::Asterisk {
        assert!(request.path().is_empty() || request.path().starts_with(b"/"));
        assert!(!request.path().contains(&b'?'));
    }
    assert!(request.values(Name::Host).count() <= 1);
}

trait SplitOnceByte {
    fn split_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])>;
}

impl SplitOnceByte for [u8] {
    fn split_once_byte(&self, byte: u8) -> Option<(&[u8], &[u8])> {
        let at = self.iter().position(|&b| b == byte)?;
        Some((&self[..at], &self[at + 1..]))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_is_accepted_keeps_the_rules_and_what_is_not_is_refused_alike(
        input in head_bytes(),
        step in 1_usize..9,
    ) {
        let whole = read(&input, [input.len()]);
        if let Ok(Some((head, hop))) = &whole {
            check_accepted(&input, head, hop);
        }
        for step in [1, step] {
            let ends = (0..input.len()).step_by(step).skip(1).chain([input.len()]);
            let split = read(&input, ends);
            prop_assert_eq!(
                format!("{:?}", split), format!("{:?}", whole),
                "in steps of {}: {}", step, input.escape_ascii()
            );
        }
    }

    #[test]
    fn no_bytes_panic(input in vec(any::<u8>(), 0..200)) {
        let _ = read(&input, [input.len()]);
        let _ = read(&input, 0..=input.len());
        let _ = parse_head(&input, &Limits::default(), &mut Head::default());
    }

    #[test]
    fn a_parser_that_is_given_no_searched_head_does_not_panic_either(input in head_bytes()) {
        let _ = parse_head(&input, &limits(), &mut Head::default());
    }
}

#[test]
fn a_head_is_refused_alike_wherever_it_is_split_at_each_limit() {
    let limits = limits();
    for pad in 0..40 {
        let line = limits.target_bytes_max - 8 + pad;
        let fields = limits.head_bytes_max - 60 + pad;
        for input in [
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(line)),
            format!("VERYLONGMETHODNAMEINDEED /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(line)),
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(fields)),
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\n\r\n", "a".repeat(fields)),
            format!("GET / HTTP/1.1\r\nHost: a\r\n {}\r\n\r\n", "a".repeat(fields)),
            format!("{}GET /{} HTTP/1.1\r\n\r\n", "\r\n".repeat(400 + pad), "a".repeat(250)),
            format!("{}\n", "\r\n".repeat(490 + pad)),
        ] {
            let whole = format!("{:?}", read(input.as_bytes(), [input.len()]));
            let bytewise = format!("{:?}", read(input.as_bytes(), 1..=input.len()));
            assert_eq!(bytewise, whole, "{input:?}");
        }
    }
}

#[test]
fn white_space_around_a_value_is_no_part_of_it() {
    let bytes = b"GET / HTTP/1.0\r\nA: \t b c\t \r\nB:\r\nRange: \r\nC:d\r\n\r\n";
    let (head, _) = read(bytes, [bytes.len()]).unwrap().unwrap();
    let values = head.request(bytes).fields().map(|(_, value)| value).collect::<Vec<_>>();
    assert_eq!(values, [&b"b c"[..], b"", b"", b"d"]);
    assert_eq!(head.request(bytes).value(Name::Range), Some(&b""[..]));
}

#[test]
fn a_request_that_is_put_together_is_held_to_what_clients_are_held_to() {
    let draft = || Draft::new(b"GET", b"/a?b").field(b"Host", b"c:1");
    let owned = draft().field(b"Range", b" bytes=0-1 ").field(b"X-A", b"").done().unwrap();
    let request = owned.request();
    assert_eq!((request.method(), request.target()), (Method::Get, &b"/a?b"[..]));
    assert_eq!((request.path(), request.query()), (&b"/a"[..], &b"b"[..]));
    assert_eq!((request.host(), request.authority()), (&b"c"[..], &b"c:1"[..]));
    assert_eq!(request.value(Name::Range), Some(&b"bytes=0-1"[..]));
    let fields: Vec<_> = request.fields().collect();
    assert_eq!(fields[1..], [(&b"Range"[..], &b"bytes=0-1"[..]), (&b"X-A"[..], &b""[..])]);
    assert_eq!(request.to_owned().request().field(b"x-a"), Some(&b""[..]));
    assert_eq!(Draft::new(b"GET", b"/").done().unwrap().request().host(), b"");
    for target in ["", "a", "/a b", "/a\r\nb", "/\x7f", "/a#b", &"/".repeat(9_000)] {
        assert!(Draft::new(b"GET", target.as_bytes()).done().is_none(), "{target}");
    }
    for (name, value) in [("", "x"), ("a b", "x"), ("a", "x\r\ny"), ("Host", "d"), ("a", "\0")] {
        let drafted = draft().field(name.as_bytes(), value.as_bytes()).done();
        assert!(drafted.is_none(), "{name}: {value}");
    }
}
