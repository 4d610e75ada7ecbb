//! Long work of an event loop that does its own disk work: a thread beside it, once there is some.

use crate::common::{Launch, Site, get, proc_status};
use flyball_testkit::Client;

const BODY_BYTES: usize = 200_000;

/// Threads of the worker after something was asked for.
fn threads_after(site: &Site, arch: &str, ask: fn(&mut Client)) -> String {
    let server = Launch::new(site, arch).workers_for(arch, 1).start();
    ask(&mut server.connect());
    proc_status(server.worker(), "Threads").expect("it runs")
}

fn a_file(client: &mut Client) {
    assert_eq!(client.ask(get("/page.txt")).body.len(), BODY_BYTES);
}

fn a_coded_file(client: &mut Client) {
    let request = "GET /page.txt HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: br\r\n\r\n";
    assert!(client.ask(request).body.len() < BODY_BYTES);
}

fn a_listing(client: &mut Client) {
    assert!(client.ask(get("/below/")).text().contains("a.txt"));
}

#[test]
fn bodies_are_coded_and_directories_listed_by_a_thread_beside_the_loop() {
    let text = b"a line of text\n".repeat(BODY_BYTES / 15 + 1);
    let site = Site::with(&[("page.txt", &text[..BODY_BYTES])]);
    std::fs::create_dir(site.path().join("below")).expect("a directory");
    std::fs::write(site.path().join("below/a.txt"), "a").expect("a file");
    for arch in ["sped", "symped", "n-copy"] {
        assert_eq!(threads_after(&site, arch, a_file), "1", "{arch}: the loop reads files");
        assert_eq!(threads_after(&site, arch, a_coded_file), "2", "{arch}");
        assert_eq!(threads_after(&site, arch, a_listing), "2", "{arch}");
    }
}
