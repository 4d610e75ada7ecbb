//! Requests that mean one thing to this server and another to a proxy in front of it: whatever they
//! hide is never answered (RFC 9112, sections 6.1, 6.3 and 11.2).

use flyball_testkit::responses;

use crate::mount::Mount;
use crate::requests::request;

/// What the attacker wants to be answered; its answer is a 200 with this text.
const HIDDEN: &str = "GET /who.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// What the answer to [`HIDDEN`] would hold.
const ANSWER: &str = "default\n";

/// One refusal with this status and nothing else, then an orderly close.
#[track_caller]
fn assert_alone(mount: &Mount, attack: &str, status: u16) {
    let mut client = mount.connect();
    client.send(attack);
    let rest = client.rest();
    let answers = responses(&rest);
    assert_eq!(answers.len(), 1, "{attack:?}: {:?}", String::from_utf8_lossy(&rest));
    assert_eq!(answers[0].status(), status, "{attack:?}: {:?}", answers[0].head);
    assert_eq!(answers[0].field("Connection"), Some("close"), "{attack:?}");
    assert!(!answers[0].text().contains(ANSWER), "{attack:?}");
}

pub(crate) fn the_hidden_request_would_be_answered_if_it_were_believed(mount: &Mount) {
    let mut client = mount.connect();
    assert_eq!(client.ask(HIDDEN).text(), ANSWER);
}

pub(crate) fn two_framings_never_hide_a_request(mount: &Mount) {
    let length = format!("Content-Length: {}", HIDDEN.len());
    let chunked = "Transfer-Encoding: chunked";
    for fields in [
        &[chunked, &length][..],
        &[&length, chunked],
        &["Content-Length: 0", chunked],
        &["Content-Length: 5", &length],
        &[&length, "Content-Length: 0"],
        &[&length, &length],
        &["Content-Length: 0, 0"],
        &["Content-Length: +0"],
        &["Content-Length: -1"],
        &["Content-Length: 0x0"],
        &["Content-Length: 0\x0b"],
        &["Content-Length : 0"],
        &["Content-Length\t: 0"],
        &["Transfer-Encoding : chunked"],
        &["Transfer-Encoding: chunked, chunked"],
        &[chunked, chunked],
        &["X: y\r\n Transfer-Encoding: chunked"],
        &["Transfer-Encoding:\r\n chunked"],
        &["X: y\rTransfer-Encoding: chunked"],
        &["X: y\nContent-Length: 0"],
        &["X: y\x00\r\nContent-Length: 0"],
    ] {
        let head = request("POST", "/digest", fields);
        assert_alone(mount, &format!("{head}0\r\n\r\n{HIDDEN}"), 400);
        assert_alone(mount, &format!("{head}{HIDDEN}"), 400);
    }
}

pub(crate) fn unknown_codings_never_hide_a_request(mount: &Mount) {
    for (coding, status) in [
        ("xchunked", 501),
        ("identity", 501),
        ("chunked;x", 501),
        ("gzip, chunked", 501),
        ("\"chunked\"", 501),
        ("chunked, gzip", 400),
        ("chunked,", 400),
    ] {
        let head = request("POST", "/digest", &[&format!("Transfer-Encoding: {coding}")]);
        assert_alone(mount, &format!("{head}0\r\n\r\n{HIDDEN}"), status);
    }
}

pub(crate) fn broken_chunks_never_hide_a_request(mount: &Mount) {
    for body in [
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "+1\r\nx\r\n0\r\n\r\n",
        "0x1\r\nx\r\n0\r\n\r\n",
        " 1\r\nx\r\n0\r\n\r\n",
        "1 \r\nx\r\n0\r\n\r\n",
        "1\t\r\nx\r\n0\r\n\r\n",
        "1_0\r\nx\r\n0\r\n\r\n",
        "1\nx\r\n0\r\n\r\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nxy\r\n0\r\n\r\n",
        "1\r\nx0\r\n\r\n",
        "1\r\nx\r0\r\n\r\n",
        "1\r\nx\r\n0\n\n",
        "1\r\nx\r\n0\r\n\n",
        "1\r\nx\r\n0\r\n\rX",
        "1;\r\nx\r\n0\r\n\r\n",
        "1; a\r\nx\r\n0\r\n\r\n",
        "1;a=\r\nx\r\n0\r\n\r\n",
        "1;a=\"b\r\nx\r\n0\r\n\r\n",
        "1;a\nb\r\nx\r\n0\r\n\r\n",
        "1;a\rb\r\nx\r\n0\r\n\r\n",
        "1;a\x00\r\nx\r\n0\r\n\r\n",
        "1000000000000000\r\n",
        "00000000000000001\r\nx\r\n0\r\n\r\n",
        "ffffffffffffffff1\r\nx\r\n0\r\n\r\n",
        "0\r\n X: y\r\n\r\n",
        "0\r\nX : y\r\n\r\n",
        "0\r\nX: y\nY: z\r\n\r\n",
        "0\r\nX: \x00\r\n\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\n: y\r\n\r\n",
    ] {
        let head = request("POST", "/digest", &["Transfer-Encoding: chunked"]);
        assert_alone(mount, &format!("{head}{body}{HIDDEN}"), 400);
    }
}

pub(crate) fn broken_chunks_that_nobody_wants_never_hide_a_request(mount: &Mount) {
    for body in ["g\r\n", "1\nx\r\n0\r\n\r\n", "1\r\nxy\r\n0\r\n\r\n", "0\r\n X: y\r\n\r\n"] {
        let head = request("POST", "/page.html", &["Transfer-Encoding: chunked"]);
        let mut client = mount.connect();
        client.send(format!("{head}{body}{HIDDEN}"));
        let answers = responses(&client.rest());
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status()).collect();
        assert_eq!(statuses, [405], "{body:?}");
    }
}

pub(crate) fn extensions_and_trailers_are_bounded(mount: &Mount) {
    let head = request("POST", "/digest", &["Transfer-Encoding: chunked"]);
    let extension = format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(5_000));
    assert_alone(mount, &format!("{head}{extension}{HIDDEN}"), 400);
    let many = "1;a=bbbbbbbbbb\r\nx\r\n".repeat(500);
    assert_alone(mount, &format!("{head}{many}0\r\n\r\n{HIDDEN}"), 400);
    let trailer = format!("0\r\nX: {}\r\n\r\n", "a".repeat(9_000));
    assert_alone(mount, &format!("{head}{trailer}{HIDDEN}"), 431);
    let endless = format!("0\r\n{}", "X: y\r\n".repeat(3_000));
    assert_alone(mount, &format!("{head}{endless}\r\n{HIDDEN}"), 431);
}

pub(crate) fn trailers_are_not_believed(mount: &Mount) {
    let head = request("POST", "/digest", &["Transfer-Encoding: chunked"]);
    let trailer = "0\r\nContent-Length: 40\r\nTransfer-Encoding: gzip\r\nHost: b\r\n\
                   Connection: close\r\n\r\n";
    let mut client = mount.connect();
    client.send(format!("{head}1\r\nx\r\n{trailer}{HIDDEN}"));
    assert_eq!(client.response().status(), 200);
    assert_eq!(client.response().text(), ANSWER);
}
