//! Files that may not be read, and files that have gone: an answer to whoever asks for them, and
//! nothing to anybody else.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use flyball_testkit::wait::{DEADLINE, until};
use flyball_testkit::{Client, LARGE_BYTES, large, large_at};
use tempfile::TempDir;

use crate::mount::Mount;
use crate::requests::{get, request};

/// Everything is looked at again soon, and one worker serves them all.
const SETTINGS: &str = "workers = 1\ncache.revalidate = \"20ms\"\n";

/// Files of which the one is held in memory and the other as a descriptor.
const HELD: [(&str, usize); 2] = [("small.bin", 1_000), ("medium.bin", 300_000)];

/// Younger files do not enter a cache, with something to spare.
const SETTLED: Duration = Duration::from_millis(150);

/// Socket buffer of a client whose download is under way for as long as it likes.
const NARROW_BYTES: usize = 128 * 1024;

/// How much of its body it reads between two changes.
const SIP_BYTES: usize = 100_000;

pub(crate) fn what_may_not_be_read_is_403_and_what_has_gone_404_to_nobody_else(mount: &Mount) {
    let site = site();
    let path = |name: &str| site.path().join(name);
    let sites = format!("[[site]]\nhosts = [\"*\"]\nroot = {:?}\n", site.path());
    let server = mount.start_with_sites(SETTINGS, &sites);
    let mut others = Others::begin(server.address());
    let mut client = server.connect();
    for target in ["/closed.txt", "/closed/page.txt", "/closed/"] {
        // Twice, so that the second answer comes from the cache of what is not to be had.
        for _ in 0..2 {
            assert_eq!(client.ask(get(target)).status(), 403, "{target}");
        }
        others.go_on();
    }
    for (name, len) in HELD {
        let target = format!("/{name}");
        for _ in 0..2 {
            assert_eq!(client.ask(get(&target)).body.len(), len);
        }
        set_mode(&path(name), 0);
        becomes(&mut client, &target, 403);
        others.go_on();
        set_mode(&path(name), 0o644);
        becomes(&mut client, &target, 200);
        fs::remove_file(path(name)).expect("it is there");
        becomes(&mut client, &target, 404);
        others.go_on();
    }
    fs::remove_file(path("goes.bin")).expect("it is there");
    becomes(&mut client, "/goes.bin", 404);
    others.finish();
    server.assert_sound();
    // Or it cannot be removed by who is no superuser.
    set_mode(&path("closed"), 0o755);
}

fn site() -> TempDir {
    let site = tempfile::Builder::new().prefix("flyball-closed-").tempdir();
    let site = site.expect("a temporary directory");
    let write = |name: &str, body: &[u8]| {
        fs::write(site.path().join(name), body).expect("the site can be written");
    };
    write("stays.bin", large());
    write("goes.bin", large());
    write("open.txt", b"open\n");
    for (name, len) in HELD {
        write(name, &large()[..len]);
    }
    write("closed.txt", b"SECRET of a file\n");
    fs::create_dir(site.path().join("closed")).expect("the site can be written");
    write("closed/page.txt", b"SECRET of a directory\n");
    for name in ["closed.txt", "closed"] {
        set_mode(&site.path().join(name), 0);
    }
    let last = fs::metadata(site.path().join("closed")).and_then(|file| file.modified());
    let last = last.expect("a time");
    let settled = || last.elapsed().is_ok_and(|age| age > SETTLED).then_some(());
    until(DEADLINE, settled).expect("time passes");
    site
}

/// With no bit set, only a superuser may read a file or enter a directory; a server that one starts
/// becomes somebody else.
fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is there");
}

/// Waits until the answers to a client have this status.
#[track_caller]
fn becomes(client: &mut Client, target: &str, status: u16) {
    let head = request("HEAD", target, &[]);
    let became = until(DEADLINE, || {
        client.send(&head);
        (client.response_head().status() == status).then_some(())
    });
    assert!(became.is_some(), "{target} does not become {status}");
    assert_eq!(client.ask(get(target)).status(), status, "{target}");
}

/// Two downloads that are under way, and a connection that asks now and then.
struct Others {
    downloads: [Client; 2],
    taken: usize,
    asking: Client,
}

impl Others {
    fn begin(address: SocketAddr) -> Others {
        let downloads = ["/stays.bin", "/goes.bin"].map(|target| {
            let mut client = Client::connect_narrow(address, NARROW_BYTES);
            client.send(get(target));
            assert_eq!(client.response_head().expect("Content-Length"), LARGE_BYTES.to_string());
            client
        });
        Others { downloads, taken: 0, asking: Client::connect(address) }
    }

    #[track_caller]
    fn go_on(&mut self) {
        for download in &mut self.downloads {
            large_at(self.taken, &download.take(SIP_BYTES));
        }
        self.taken += SIP_BYTES;
        assert_eq!(self.asking.ask(get("/open.txt")).text(), "open\n");
    }

    /// The downloads are whole, and every connection is kept.
    fn finish(self) {
        let Others { downloads, taken, asking } = self;
        let mut clients = Vec::from(downloads);
        for download in &mut clients {
            large_at(taken, &download.take(LARGE_BYTES - taken));
        }
        clients.push(asking);
        for mut client in clients {
            assert_eq!(client.ask(get("/open.txt")).text(), "open\n");
        }
    }
}
