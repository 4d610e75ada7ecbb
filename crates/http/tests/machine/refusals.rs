//! Each refusal has its status, says so, and ends the connection.

use flyball_http::h1::state::State;
use flyball_http::{CloseReason, Limits};

use crate::script::{Act, COMMON, drive, kept, limits, play, play_with, send};

/// Plays a request that must be refused: its status line, after which nothing is answered.
fn refused(request: &[u8]) -> String {
    let next = b"\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    // The time is for what is longer than what is thrown away.
    let end = play(&[send([request, next].concat()), Act::Finish, Act::Wait(1)]);
    assert_eq!(end.closed, Some(CloseReason::Refused), "{}", request.escape_ascii());
    let (head, text) = end.wire.split_once("\r\n\r\n").expect("a head ends");
    let (status, fields) = head.split_once("\r\n").expect("a status line ends");
    let expected = format!(
        "{COMMON}Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}",
        text.len()
    );
    assert_eq!(fields, expected, "{}", request.escape_ascii());
    assert!(text.ends_with(".\n"), "one sentence and nothing more: {text:?}");
    status.strip_prefix("HTTP/1.1 ").expect("our version").to_owned()
}

#[test]
fn heads_that_break_the_grammar_are_refused_with_400() {
    for request in [
        // Line ends.
        &b"GET / HTTP/1.1\nHost: a\r\n\r\n"[..],
        b"GET / HTTP/1.1\r\nHost: a\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX\rY: b\r\n\r\n",
        b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        // Folding, and white space where none may be.
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n \r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 3\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n",
        // NUL and other controls.
        b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x0bb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x7fb\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n",
        b"GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\x07 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"G\0T / HTTP/1.1\r\nHost: a\r\n\r\n",
        // Lines that are none.
        b"GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX(y): b\r\n\r\n",
        b"GET\r\nHost: a\r\n\r\n",
        b"GET /\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /  HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b" GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1 \r\nHost: a\r\n\r\n",
        b"GET / http/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.10\r\nHost: a\r\n\r\n",
        b"G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        // Targets.
        b"GET a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        assert_eq!(refused(request), "400 Bad Request", "{}", request.escape_ascii());
    }
}

#[test]
fn a_host_that_is_missing_repeated_or_none_is_refused_with_400() {
    for fields in [
        "",
        "X: a\r\n",
        "Host: a\r\nHost: a\r\n",
        "Host: a\r\nhost: b\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: u@a\r\n",
        "Host: a:b\r\n",
        "Host: a:80:80\r\n",
        "Host: [::1\r\n",
        "Host: []\r\n",
        "Host: [x]\r\n",
        "Host: [::1]x\r\n",
        "Host: a:800000\r\n",
        "Host: a:65536\r\n",
    ] {
        for target in ["/", "http://a/"] {
            let request = format!("GET {target} HTTP/1.1\r\n{fields}\r\n");
            assert_eq!(refused(request.as_bytes()), "400 Bad Request", "{request:?}");
        }
    }
    let request = b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n";
    assert_eq!(refused(request), "400 Bad Request");
}

#[test]
fn bodies_of_doubtful_length_are_refused_with_400() {
    for fields in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: 3, 4\r\n",
        "Content-Length:\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3 3\r\n",
        "Content-Length: 3.0\r\n",
        "Content-Length: a\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: 99999999999999999999\r\n",
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\nabc");
        assert_eq!(refused(request.as_bytes()), "400 Bad Request", "{request:?}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(refused(old), "400 Bad Request");
}

#[test]
fn chunks_that_break_the_grammar_are_refused_with_400() {
    for chunks in [
        "\r\n",
        "g\r\n",
        " 3\r\n",
        "3 \r\n",
        "3\n",
        "+3\r\n",
        "0x3\r\n",
        "-1\r\n",
        "1000000000000000\r\n",
        "3;\r\n",
        "3; a\r\n",
        "3;a=\r\n",
        "3;a=\"\r\n",
        "3;a=\"b\"c\r\n",
        "3;a\rb\r\n",
        "3;a\nb\r\n",
        "3;a=\"\0\"\r\n",
        "3\r\nabcX",
        "3\r\nabc\n",
        "3\r\nabc\rX",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\n\n",
        "0\r\nX: a\nb",
        "0\r\nX: \0\r\n\r\n",
        "0\r\nX: a\rb\r\n\r\n",
        "0\r\n: a\r\n\r\n",
    ] {
        let request = format!(
            "POST /upload/9 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
        );
        assert_eq!(refused(request.as_bytes()), "400 Bad Request", "{chunks:?}");
    }
}

#[test]
fn what_is_too_large_too_long_or_unknown_has_a_status_of_its_own() {
    let head = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let long_line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(256));
    let endless_line = format!("GET /{}", "a".repeat(2_000));
    let long_field = head(&format!("X: {}\r\n", "a".repeat(1_000)));
    let endless_field = format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(2_000));
    let short_fields = head(&format!("X: {}\r\n", "a".repeat(90)).repeat(12));
    let many_fields = head(&"X: a\r\n".repeat(8));
    for (request, status) in [
        (long_line.as_str(), "414 URI Too Long"),
        (&endless_line, "414 URI Too Long"),
        (&long_field, "431 Request Header Fields Too Large"),
        (&endless_field, "431 Request Header Fields Too Large"),
        (&short_fields, "431 Request Header Fields Too Large"),
        (&many_fields, "431 Request Header Fields Too Large"),
        (&head("Transfer-Encoding: gzip\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding: gzip, chunked\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding: identity\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding: xchunked\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding: chunked;q=1\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding: \"chunked\"\r\n"), "501 Not Implemented"),
        (&head("Transfer-Encoding:\r\n"), "501 Not Implemented"),
        (&head("Content-Length: 3\r\nExpect: fun\r\n"), "417 Expectation Failed"),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported"),
        ("GET / HTTP/0.9\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported"),
        ("GET / HTTP/3.7\r\nHost: a\r\n\r\n", "505 HTTP Version Not Supported"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 HTTP Version Not Supported"),
    ] {
        assert_eq!(refused(request.as_bytes()), status, "{request:?}");
    }
}

#[test]
fn what_is_just_within_the_limits_is_answered() {
    let target = format!("/{}", "a".repeat(255));
    let line = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(play(&[send(line)]).wire, kept(&target));
    let fields = "Y: b\r\n".repeat(7);
    let lines = format!("GET /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    assert_eq!(play(&[send(lines)]).wire, kept("/a"));
    let used = "GET /a HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n".len();
    let value = "x".repeat(limits().head_bytes_max - used);
    let head = format!("GET /a HTTP/1.1\r\nHost: a\r\nX: {value}\r\n\r\n");
    assert_eq!(head.len(), limits().head_bytes_max);
    assert_eq!(play(&[send(&head)]).wire, kept("/a"));
    let longer = head.replace("X: ", "X: y");
    assert!(play(&[send(longer)]).wire.starts_with("HTTP/1.1 431 "));
}

#[test]
fn unusual_heads_that_are_valid_are_answered() {
    for head in [
        "GET /a HTTP/1.1\r\nhOsT:a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost:\t a \t\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost:\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a:\r\n\r\n",
        "GET /a?b?c HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET HTTP://b:80/a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nX: \u{e9}\r\n\r\n",
        "x!#$%&'*+-.^_`|~9 /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
    ] {
        assert_eq!(play(&[send(head)]).wire, kept("/a"), "{head:?}");
    }
}

#[test]
fn a_client_that_begins_to_speak_tls_is_left_without_an_answer() {
    for hello in [&b"\x16"[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let end = play(&[send(hello)]);
        assert_eq!((&end.wire[..], end.closed), ("", Some(CloseReason::TlsInClear)));
    }
    // It had the chance to; what comes behind a request is one.
    let end = play(&[send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n\x16")]);
    assert!(end.wire.starts_with(&(kept("/a") + "HTTP/1.1 400 ")), "{}", end.wire);
}

#[test]
fn noise_is_refused_at_its_first_byte() {
    for noise in [&b"\x17"[..], b"\0", b" ", b"{", b"\x80", b"\xff\r\nx\r\n"] {
        let end = play(&[send(noise)]);
        assert!(end.wire.starts_with("HTTP/1.1 400 "), "{noise:?}: {}", end.wire);
    }
}

#[test]
fn a_refusal_follows_the_answers_that_are_owed() {
    let end = play(&[
        send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\nGET /c\r\n\r\n"),
        Act::Finish,
    ]);
    let (answers, refusal) = end.wire.split_at(kept("/a").len() * 2);
    assert_eq!(answers, kept("/a") + &kept("/b"));
    assert!(refusal.starts_with("HTTP/1.1 400 "), "{refusal}");
}

#[test]
fn after_a_refusal_the_client_gets_time_to_read_it() {
    let bad = "GET /\r\n\r\n";
    let end = play(&[send(bad), send("x".repeat(500))]);
    assert_eq!((end.state, end.closed), (State::Lingering, None));
    let driver = drive(&limits(), &[send(bad)], usize::MAX);
    assert!(driver.was_shut, "our side is shut, so that the client sees the end of the answer");
    // It ends when the client closes, after a time, or after too many bytes.
    let closed = Some(CloseReason::Refused);
    assert_eq!(play(&[send(bad), send("x"), Act::Finish]).closed, closed);
    assert_eq!(play(&[send(bad), Act::Wait(199)]).closed, None);
    assert_eq!(play(&[send(bad), Act::Wait(200)]).closed, closed);
    // Each byte gives it more time, and all of them together no more than so much.
    let drips = |count: usize, rest: u64| {
        let drip = (0..count).flat_map(|_| [Act::Wait(199), send("x")]);
        play(&[send(bad)].into_iter().chain(drip).chain([Act::Wait(rest)]).collect::<Vec<_>>())
    };
    assert_eq!((drips(1, 199).closed, drips(1, 200).closed), (None, closed));
    assert_eq!((drips(5, 4).closed, drips(5, 5).closed), (None, closed));
    let patient = Limits { linger_ms: 10_000, ..limits() };
    let flood = [send(bad), send([b'x'; 513]), Act::Wait(1)];
    assert_eq!(play_with(&patient, &flood).closed, closed);
    // A reset would take along what the client has not read of it.
    let unread = [&[Act::InSocket(10)], &flood[..]].concat();
    let end = play_with(&patient, &unread);
    assert_eq!((end.state, end.closed), (State::Breaking, None));
    let read = [&unread[..], &[Act::InSocket(0), Act::Wait(1_000)]].concat();
    assert_eq!(play_with(&patient, &read).closed, closed);
}

#[test]
fn who_answers_is_asked_about_a_body_that_is_too_long_and_nothing_follows_its_answer() {
    let next = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (length, is_too_long) in [("2048", false), ("2049", true), ("9999999999999999999", true)] {
        let head = format!("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let driver = drive(&limits(), &[send(&head)], usize::MAX);
        assert_eq!(driver.conn.body_is_too_long(), is_too_long, "{length}");
        let end = play(&[send(head + next), Act::Release, Act::Finish, Act::Wait(1)]);
        assert_eq!(end.wire.matches("HTTP/1.1 ").count(), 1, "{}", end.wire);
        if is_too_long {
            assert!(end.wire.contains("Connection: close\r\n"), "{}", end.wire);
            assert_eq!(end.closed, Some(CloseReason::Refused), "{length}");
        }
        // It is not taken by one who does not look, either.
        let taken =
            format!("POST /upload/9 HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let end = play(&[send(taken + &"x".repeat(3_000)), Act::Finish, Act::Wait(1)]);
        assert_eq!(end.wire.starts_with("HTTP/1.1 413 "), is_too_long, "{}", end.wire);
    }
}
