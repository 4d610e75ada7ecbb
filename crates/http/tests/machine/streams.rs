//! Bodies that are produced while they are sent (RFC 9112, sections 6 and 7.1).

use flyball_http::h1::STREAM_QUEUED_MAX;
use flyball_http::h1::state::State;
use flyball_http::{CloseReason, Limits};

use crate::script::{Act, answer, drive, kept, last, limits, play, send, until_close};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_body_of_unknown_length_comes_in_chunks_and_the_connection_is_kept() {
    assert!(kept("/stream/5/3").ends_with(
        "Transfer-Encoding: chunked\r\n\r\n3\r\n\0\u{1}\u{2}\r\n2\r\n\u{3}\u{4}\r\n0\r\n\r\n"
    ));
    for path in ["/stream/0/9", "/stream/1/9", "/stream/9/9", "/stream/40/9", "/stream/300/250"] {
        let end = play(&[send(get(path) + &get("/after"))]);
        assert_eq!((end.wire, end.state), (kept(path) + &kept("/after"), State::Idle), "{path}");
    }
}

#[test]
fn a_body_of_known_length_has_its_length_and_no_chunks() {
    for path in ["/sized/0/9", "/sized/9/9", "/sized/40/9"] {
        let end = play(&[send(get(path) + &get("/after"))]);
        assert_eq!((end.wire, end.state), (kept(path) + &kept("/after"), State::Idle), "{path}");
    }
    let old = "GET /sized/40/9 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let end = play(&[send(old)]);
    let answered = answer("/sized/40/9", "Connection: keep-alive\r\n");
    assert_eq!((end.wire, end.state), (answered, State::Idle));
}

#[test]
fn http_1_0_gets_a_body_of_unknown_length_until_the_connection_ends() {
    let old = "GET /stream/40/9 HTTP/1.0\r\n\r\n";
    let end = play(&[send(old)]);
    let requested = Some(CloseReason::Requested);
    assert_eq!((end.wire, end.closed), (until_close("/stream/40/9"), requested));
    let kept = "GET /stream/40/9 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let end = play(&[send(kept), Act::Finish]);
    let ends = Some(CloseReason::EndsBody);
    assert_eq!((end.wire, end.closed), (until_close("/stream/40/9"), ends));
}

#[test]
fn a_client_that_wants_no_further_answer_gets_the_whole_body_first() {
    let request = "GET /stream/40/9 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let end = play(&[send(request)]);
    assert_eq!((end.wire, end.closed), (last("/stream/40/9"), Some(CloseReason::Requested)));
    let end = play(&[send(get("/slow/20/9")), Act::Finish, Act::Release, Act::Release]);
    assert_eq!((end.wire.contains("0\r\n\r\n"), end.state), (false, State::Streaming));
}

#[test]
fn head_is_answered_without_a_body_and_no_piece_is_asked_for() {
    let head = |path: &str| format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let cut = |answer: String| answer.split_inclusive("\r\n\r\n").next().unwrap().to_owned();
    let driver = drive(&limits(), &[send(head("/sized/40/9") + &get("/after"))], 7);
    assert_eq!(driver.text(), cut(kept("/sized/40/9")) + &kept("/after"));
    assert_eq!((driver.pieces, driver.state()), (0, State::Idle));
    let end = play(&[send(head("/stream/40/9") + &get("/after"))]);
    let unframed = cut(kept("/stream/40/9")).replace("Transfer-Encoding: chunked\r\n", "");
    assert_eq!(end.wire, unframed.clone() + &kept("/after"));
    let old = "HEAD /stream/40/9 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(play(&[send(old)]).state, State::Idle);
}

#[test]
fn requests_behind_a_stream_wait_for_its_end() {
    let batch = get("/a") + &get("/slow/20/9") + &get("/b") + &get("/sized/9/4") + &get("/c");
    let [first, second] = ["/a", "/slow/20/9"].map(kept);
    let end = play(&[send(&batch)]);
    let head = second.find("\r\n\r\n").unwrap() + 4;
    assert_eq!(end.wire, first.clone() + &second[..head]);
    let end = play(&[send(&batch), Act::Release, Act::Release, Act::Release]);
    let rest = ["/b", "/sized/9/4", "/c"].map(kept).concat();
    assert_eq!((end.wire, end.state), (first + &second + &rest, State::Idle));
}

/// RFC 9112, section 9.3, lets an answer begin before its request has ended.
#[test]
fn a_backend_may_answer_while_the_request_body_still_comes() {
    let echo = "POST /echo/0/0 HTTP/1.0\r\nContent-Length: 6\r\n\r\n";
    let head = until_close("/echo/0/0");
    let end = play(&[send(echo), send("abc")]);
    assert_eq!((end.wire, end.state), (head.clone() + "abc", State::Exchanging));
    let end = play(&[send(echo), send("abc"), send("def")]);
    assert_eq!((end.wire, end.closed), (head + "abcdef", Some(CloseReason::Requested)));
    let chunked = "POST /echo/0/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let acts = [send(chunked), send("5\r\nhello"), send("\r\n0\r\n\r\n"), Act::HangUp];
    let end = drive(&limits(), &acts, usize::MAX);
    let body = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert!(end.text().contains("Connection: close\r\n") && end.text().ends_with(body));
    assert_eq!(end.closed, Some(CloseReason::BodyUnread));
}

#[test]
fn an_early_answer_to_a_broken_body_is_broken_off() {
    let chunked = "POST /echo/0/0 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let end = play(&[send(chunked), send("nonsense"), Act::Finish]);
    assert!(!end.wire.ends_with("0\r\n\r\n"), "{}", end.wire);
    assert_eq!(end.closed, Some(CloseReason::Refused));
    // A client that sends nothing more is too slow, however patient the backend is.
    let wait = Act::Wait(limits().rate_window_ms);
    let end = play(&[send(chunked), wait, Act::Finish]);
    assert_eq!(end.closed, Some(CloseReason::BodyTimeout));
}

#[test]
fn a_body_that_breaks_its_promise_breaks_the_connection() {
    for path in ["/short/40/9", "/long/40/9", "/failing/40/9", "/long/1/1"] {
        let end = play(&[send(get(path) + &get("/after")), Act::Finish]);
        assert_eq!(end.closed, Some(CloseReason::SourceFailed), "{path}");
        assert!(kept(path).starts_with(&end.wire) && end.wire.len() < kept(path).len(), "{path}");
    }
}

#[test]
fn a_reset_waits_until_the_client_has_what_the_socket_holds() {
    let failing = "GET /failing/40/9 HTTP/1.0\r\n\r\n";
    let held = [send(failing), Act::InSocket(10), Act::Wait(1), Act::Wait(limits().linger_ms / 4)];
    assert_eq!(play(&held).state, State::Breaking);
    let taken = [Act::InSocket(0), Act::Wait(limits().linger_ms / 2)];
    let driver = drive(&limits(), &[&held[..], &taken].concat(), usize::MAX);
    assert_eq!(driver.closed, Some(CloseReason::SourceFailed));
    assert!(!driver.was_shut, "an orderly end would pass for that of the body");
    // It waits no longer than that.
    let late = [Act::Wait(limits().linger_ms)];
    assert_eq!(play(&[&held[..], &late].concat()).closed, Some(CloseReason::SourceFailed));
}

#[test]
fn no_piece_is_asked_for_while_the_output_is_full() {
    let (piece, len) = (STREAM_QUEUED_MAX / 4, STREAM_QUEUED_MAX * 10);
    let path = format!("/stream/{len}/{piece}");
    let mut acts = vec![Act::Room(0), send(get(&path))];
    let driver = drive(&limits(), &acts, usize::MAX);
    assert_eq!((driver.pieces, driver.wire.len()), (4, 0));
    acts.push(Act::Room(2 * piece));
    let driver = drive(&limits(), &acts, usize::MAX);
    // The driver gives every piece that there is room for before it writes.
    assert!((5..=6).contains(&driver.pieces), "{}", driver.pieces);
    acts.push(Act::Room(u64::MAX));
    assert_eq!(drive(&limits(), &acts, usize::MAX).text(), kept(&path));
    // One that has to be waited for is asked for when nothing is left to be written.
    let path = format!("/slow/{len}/{piece}");
    let driver = drive(&limits(), &[Act::Room(0), send(get(&path))], usize::MAX);
    assert_eq!(driver.pieces, 0);
}

#[test]
fn a_client_is_not_slow_while_nothing_is_there_to_be_sent() {
    let Limits { answer_ms, rate_window_ms, .. } = limits();
    let wait = answer_ms - 1;
    assert!(wait > 2 * rate_window_ms);
    let acts = [send(get("/slow/10/9")), Act::Wait(wait), Act::Release, Act::Wait(wait)];
    let driver = drive(&limits(), &acts, usize::MAX);
    assert_eq!((driver.closed, driver.pieces), (None, 2));
    let acts = [&acts[..], &[Act::Release]].concat();
    assert_eq!(drive(&limits(), &acts, usize::MAX).text(), kept("/slow/10/9"));
}

#[test]
fn a_client_that_does_not_take_a_piece_is_given_up() {
    let window = limits().rate_window_ms;
    let stalled = [Act::InSocket(300), Act::Wait(window), Act::Wait(window)];
    let begun = [Act::Room(300), send(get("/slow/1000/900")), Act::Release];
    let driver = drive(&limits(), &[&begun[..], &stalled].concat(), usize::MAX);
    assert_eq!((driver.closed, driver.wire.len()), (Some(CloseReason::SendTimeout), 300));
    // One that takes it slowly is served.
    let taken = [Act::InSocket(300), Act::Wait(window), Act::InSocket(100), Act::Wait(window)];
    let driver = drive(&limits(), &[&begun[..], &taken].concat(), usize::MAX);
    assert_eq!((driver.closed, driver.state()), (None, State::Streaming));
}

#[test]
fn a_piece_that_does_not_come_in_time_breaks_the_connection() {
    let acts = [send(get("/slow/20/9")), Act::Release, Act::Wait(limits().answer_ms), Act::Finish];
    let end = play(&acts);
    assert_eq!(end.closed, Some(CloseReason::AnswerTimeout));
    assert!(kept("/slow/20/9").starts_with(&end.wire));
    let end = play(&[&acts[..], &[Act::LatePiece]].concat());
    assert_eq!(end.closed, Some(CloseReason::AnswerTimeout), "what comes later changes nothing");
}

#[test]
fn a_server_that_drains_ends_the_stream_and_then_the_connection() {
    let acts = [send(get("/slow/10/9") + &get("/b")), Act::Release, Act::Drain];
    assert_eq!(play(&acts).state, State::Streaming);
    let end = play(&[&acts[..], &[Act::Release, Act::Finish]].concat());
    // Its head was sent before.
    assert_eq!((end.wire, end.closed), (kept("/slow/10/9"), Some(CloseReason::Draining)));
    let end = play(&[&acts[..2], &[Act::Abort, Act::LatePiece]].concat());
    assert_eq!(end.closed, Some(CloseReason::SocketError));
}

#[test]
fn a_request_behind_a_stream_is_answered_where_others_take_over() {
    let acts = [send(get("/slow/10/9") + &get("/b")), Act::Release, Act::Retire];
    let end = play(&[&acts[..], &[Act::Release, Act::Finish]].concat());
    let wire = kept("/slow/10/9") + &last("/b");
    assert_eq!((end.wire, end.closed), (wire, Some(CloseReason::Draining)));
}

#[test]
fn a_stream_before_the_request_body_was_read_is_the_last_answer() {
    let request = "POST /stream/20/9 HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    let end = play(&[send(request.to_owned() + &get("/after")), Act::Finish]);
    assert_eq!((end.wire, end.closed), (last("/stream/20/9"), Some(CloseReason::BodyUnread)));
}

#[test]
fn an_end_that_would_pass_for_that_of_the_body_is_told_apart() {
    let cut = |acts: &[Act]| drive(&limits(), acts, usize::MAX).conn.is_cut_short();
    let old = |path: &str| send(format!("GET {path} HTTP/1.0\r\n\r\n"));
    assert!(cut(&[old("/failing/40/9")]));
    assert!(cut(&[old("/slow/40/9"), Act::Abort]));
    // The last piece was given, and is not sent.
    assert!(cut(&[Act::Room(300), old("/stream/400/9"), Act::Abort]));
    assert!(!cut(&[old("/stream/40/9")]));
    assert!(!cut(&[old("/short/40/9")]), "the length tells");
    assert!(!cut(&[send(get("/failing/40/9"))]), "the chunks tell");
    assert!(!cut(&[old("/a"), Act::Abort]));
}
