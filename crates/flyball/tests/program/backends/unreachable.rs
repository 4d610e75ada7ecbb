//! A server behind the server that cannot be reached.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::common::{Launch, architectures, get};
use flyball_sys::net::{self, ListenOptions};
use flyball_testkit::as_ourselves;

/// Longer than a connection within this machine takes.
const FULL_AFTER: Duration = Duration::from_millis(200);

#[test]
fn a_server_that_is_not_reached_in_time_is_503_and_not_waited_for_any_longer() {
    // As long as no connection is accepted, there is none beyond those that wait.
    let listener = TcpListener::bind("127.0.0.1:0").expect("it can listen");
    net::listen(&listener, 0, &ListenOptions::default()).expect("the queue can be short");
    let address = listener.local_addr().expect("it has an address");
    let mut waiting = Vec::new();
    while let Ok(connection) = TcpStream::connect_timeout(&address, FULL_AFTER) {
        waiting.push(connection);
        assert!(waiting.len() < 10, "the queue has an end");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (root, path) = (directory.path().display(), directory.path().join("flyball.toml"));
    let config = format!(
        "{}[[site]]\nroot = \"{root}\"\n[[site.scgi]]\npath = \"/app\"\n\
         socket = \"{address}\"\nconnect-timeout = \"100ms\"\n",
        as_ourselves()
    );
    std::fs::write(&path, config).expect("the configuration can be written");
    let path = path.to_str().expect("a path in UTF-8");
    for arch in architectures() {
        let launch = Launch::bare::<&str>(&[])
            .args(&["--config", path, "--listen", "127.0.0.1:0", "--arch", arch])
            .workers_for(arch, 1);
        let server = launch.start();
        assert_eq!(server.connect().ask(get("/app")).status(), 503, "{arch}");
        server.errors.wait_for(arch, |log| log.contains("503: its server was not reached in "));
    }
}

#[test]
fn a_socket_that_refuses_is_named_with_who_is_refused_and_before_that_in_a_warning() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (root, path) = (directory.path().display(), directory.path().join("flyball.toml"));
    let socket = directory.path().join("php.sock");
    let _listener = UnixListener::bind(&socket).expect("it can listen");
    // Not even its owner may connect, as long as no capability counts.
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o000))
        .expect("its mode is set");
    let config = format!(
        "{}[[site]]\nroot = \"{root}\"\n[[site.fastcgi]]\npath = \"/app\"\n\
         socket = \"unix:{}\"\n",
        as_ourselves(),
        socket.display()
    );
    std::fs::write(&path, config).expect("the configuration can be written");
    let path = path.to_str().expect("a path in UTF-8");
    for arch in architectures() {
        let launch = Launch::bare::<&str>(&[])
            .args(&["--config", path, "--listen", "127.0.0.1:0", "--arch", arch])
            .workers_for(arch, 1);
        let server = launch.start();
        let warned = format!("site.fastcgi.socket: {}", socket.display());
        server.errors.wait_for(arch, |log| log.contains(&warned));
        assert_eq!(server.connect().ask(get("/app")).status(), 503, "{arch}");
        let named = format!("its server cannot be reached (unix:{}, user ", socket.display());
        server.errors.wait_for(arch, |log| {
            log.lines().any(|line| line.contains(&named) && line.contains("Permission denied"))
        });
    }
}
