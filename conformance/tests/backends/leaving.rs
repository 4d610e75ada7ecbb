//! A client that leaves while its request is worked on, in whatever way it says so: what works for
//! it ends, in the clear and over TLS.

use flyball_testkit::{Client, wait};

use crate::common_programs::{on_every_architecture, on_every_architecture_over_tls};
use crate::dynamic::{self, Programs};
use crate::fastcgi::{self, get};

/// A way to leave, and its name.
type Way = (&'static str, fn(Client) -> Option<Client>);

/// What every client can do; it gives back the one that stays to read.
const ANY: [Way; 3] = [("half", half), ("reset", reset), ("gone", gone)];

/// What clients can do that speak TLS.
const BY_TLS: [Way; 3] = [("cut", cut), ("said", said), ("failed", failed)];

fn half(mut client: Client) -> Option<Client> {
    client.half_close();
    Some(client)
}

fn reset(client: Client) -> Option<Client> {
    client.reset();
    None
}

fn gone(_: Client) -> Option<Client> {
    None
}

fn cut(mut client: Client) -> Option<Client> {
    client.cut();
    Some(client)
}

fn said(mut client: Client) -> Option<Client> {
    client.say_end();
    Some(client)
}

fn failed(mut client: Client) -> Option<Client> {
    client.fail();
    Some(client)
}

fn ways(is_secure: bool) -> Vec<Way> {
    ANY.into_iter().chain(BY_TLS.into_iter().filter(|_| is_secure)).collect()
}

/// Before it has said anything, and within its answer.
fn a_program_ends_with_its_client(architecture: &str) {
    let Some(programs) = dynamic::start(architecture, "") else { return };
    let mut count = 0;
    for name in ["late", "stalls"] {
        for (way, leave) in ways(programs.server.is_secure()) {
            let mut client = programs.server.connect();
            client.send(get(&format!("/run/{name}")));
            let pid = started(&programs, name);
            if name == "stalls" {
                assert_eq!(client.response_head().status(), 200, "{way}");
            }
            let _reads = leave(client);
            programs.expect_ended(name, pid);
            count += 1;
            let cancelled = || (programs.counted("backend_cancels") == count).then_some(());
            wait::until(wait::DEADLINE, cancelled)
                .unwrap_or_else(|| panic!("{name}, {way}: {}", programs.server.status()));
        }
    }
}

/// The number of its process, which the next one tells in a file of its own.
fn started(programs: &Programs, name: &str) -> u32 {
    let pid = programs.runs(name);
    let told = programs.files.path().join(format!("{name}.pid"));
    std::fs::remove_file(told).expect("the file is there");
    pid
}

/// What it has said before is read, and not answered.
fn a_program_ends_although_its_client_has_sent_the_next_request(architecture: &str) {
    let Some(programs) = dynamic::start(architecture, "") else { return };
    let mut client = programs.server.connect();
    client.send([get("/run/late"), get("/page.txt")].concat());
    let pid = programs.runs("late");
    client.half_close();
    programs.expect_ended("late", pid);
}

fn a_request_to_a_server_ends_with_its_client(architecture: &str) {
    let Some(front) = fastcgi::start(architecture, fastcgi::TABLES) else { return };
    for (count, (way, leave)) in (1..).zip(ways(front.server.is_secure())) {
        let mut client = front.server.connect();
        client.send(get("/a.php"));
        let mut link = front.accept();
        link.request();
        let _reads = leave(client);
        link.expect_end();
        let cancelled = || (front.counted("backend_cancels") == count).then_some(());
        wait::until(wait::DEADLINE, cancelled)
            .unwrap_or_else(|| panic!("{way}: {}", front.server.status()));
    }
}

on_every_architecture! {
    [
        a_program_ends_with_its_client,
        a_program_ends_although_its_client_has_sent_the_next_request,
        a_request_to_a_server_ends_with_its_client,
    ]
}

on_every_architecture_over_tls! {
    a_program_ends_with_its_client,
    a_program_ends_although_its_client_has_sent_the_next_request,
    a_request_to_a_server_ends_with_its_client,
}
