//! Listening sockets in the file system: what comes over them is served as over an address, and is
//! of no address.

use std::path::PathBuf;
use std::time::Duration;

use flyball_testkit::{Client, Server, Site, wait};
use tempfile::TempDir;

use crate::mount::Mount;
use crate::requests::get;

/// More than the sockets of both ends hold.
const LARGE_BYTES: usize = 4 << 20;

/// A file that caches hold whole.
const SMALL_BYTES: usize = 960_000;

/// What a slow client reads at once, and how long it then waits.
const SIP_BYTES: usize = 8 * 1024;
const PAUSE: Duration = Duration::from_millis(60);

/// A server that listens on a socket in the file system, too.
struct Local {
    _directory: TempDir,
    path: PathBuf,
    server: Server,
}

fn start(mount: &Mount, settings: &str, of_site: &str) -> Local {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("large.bin"), vec![b'x'; LARGE_BYTES]).expect("a file");
    std::fs::write(directory.path().join("small.bin"), vec![b'x'; SMALL_BYTES]).expect("a file");
    let path = directory.path().join("site.sock");
    let root = Site::shared().path("").display().to_string();
    let large = directory.path().display().to_string();
    let tables = format!(
        "[[listener]]\naddress = \"unix:{}\"\n[[site]]\nroot = \"{root}\"\n\
         digest-path = \"/digest\"\n{of_site}\n\
         [[site.alias]]\npath = \"/large\"\nroot = \"{large}\"\n",
        path.display()
    );
    let server = mount.start_with_sites(settings, &tables);
    Local { _directory: directory, path, server }
}

pub(crate) fn a_unix_socket_serves_what_an_address_does(mount: &Mount) {
    let local = start(mount, "", "");
    let mut kept = Client::connect_unix(&local.path);
    for _ in 0..3 {
        assert_eq!(kept.ask(get("/hello.txt")).status(), 200);
    }
    assert_eq!(local.server.connect().ask(get("/hello.txt")).status(), 200);
    // Pipelined, and the end of what is sent at once.
    let mut ends = Client::connect_unix(&local.path);
    ends.send(get("/hello.txt") + &get("/nowhere"));
    ends.half_close();
    assert_eq!((ends.response().status(), ends.response().status()), (200, 404));
    ends.expect_closed();
    // More than fits, to a client that reads late.
    let mut large = Client::connect_unix(&local.path);
    large.send(get("/large/large.bin"));
    assert_eq!(large.response_head().status(), 200);
    assert!(large.take(LARGE_BYTES).iter().all(|byte| *byte == b'x'));
    let body = "y".repeat(1 << 20);
    let upload =
        format!("POST /digest HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let digest = large.ask(upload);
    assert_eq!(digest.status(), 200);
    assert!(digest.text().contains(&body.len().to_string()), "{}", digest.text());
    // A client that says nothing holds up no other.
    let _silent = Client::connect_unix(&local.path);
    assert_eq!(Client::connect_unix(&local.path).ask(get("/hello.txt")).status(), 200);
}

pub(crate) fn rules_tell_clients_of_a_unix_socket_from_those_of_addresses(mount: &Mount) {
    let local = start(
        mount,
        "",
        "[[site.access]]\npath = \"/hello.txt\"\nallow = [\"unix\"]\n\
         [[site.access]]\npath = \"/digest\"\ndeny = [\"unix\"]\n",
    );
    let mut inside = Client::connect_unix(&local.path);
    let mut outside = local.server.connect();
    for (path, of_inside, of_outside) in
        [("/hello.txt", 200, 403), ("/digest", 403, 404), ("/large/large.bin", 200, 200)]
    {
        assert_eq!(inside.ask(get(path)).status(), of_inside, "{path}");
        assert_eq!(outside.ask(get(path)).status(), of_outside, "{path}");
    }
}

/// However little its client takes at once, a thread that sends hears that it shall leave.
pub(crate) fn a_slow_download_over_a_unix_socket_is_not_cut_by_a_reload(mount: &Mount) {
    let copies = "send.mode = \"copy\"\nsend.piece = \"2MiB\"\n";
    let sendfile = "send.mode = \"sendfile\"\n";
    for (settings, target, len) in [
        (copies, "/large/large.bin", LARGE_BYTES),
        (sendfile, "/large/large.bin", LARGE_BYTES),
        // One write of all.
        ("cache.small = \"1MiB\"\n", "/large/small.bin", SMALL_BYTES),
    ] {
        let local = start(mount, settings, "");
        let mut client = Client::connect_unix(&local.path);
        client.send(get(target));
        assert_eq!(client.response_head().status(), 200);
        let mut taken = 0;
        std::thread::scope(|scope| {
            let reload = scope.spawn(|| local.server.reload());
            while !reload.is_finished() && taken < len {
                taken += client.take(SIP_BYTES.min(len - taken)).len();
                wait::dawdle(PAUSE);
            }
        });
        assert_eq!(client.take(len - taken).len(), len - taken, "{settings}");
        local.server.assert_sound();
    }
}
