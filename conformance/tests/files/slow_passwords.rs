//! A password that takes long to verify holds up nobody but its own client.

use flyball_testkit::{Client, Launch, Server, Site};

/// `slow:secret`, by a hash of bcrypt that takes about a second to verify.
const USERS: &str = "slow:$2y$13$FQsPRYJVoPhA1Z8yLUzpju7WqgWQFAdzoGc2V.UlixeeAIbxefpJS\n";
const LOGIN: &str = "Authorization: Basic c2xvdzpzZWNyZXQ=\r\n";

/// Requests of others that are answered meanwhile.
const OTHERS: usize = 20;

/// Servers of which one has to answer them in time.
const ATTEMPTS: usize = 4;

/// Mounts the body with settings that leave one worker.
macro_rules! mount {
    ($($tier:ident $module:ident $architecture:literal $settings:literal,)*) => {
        $(flyball_testkit::test_in_tier! { $tier $module {
            a_password_delays_nobody_else($architecture, $settings);
        } })*
    };
}

mount! {
    full sped "sped" "",
    full symped "symped" "workers = 1",
    full shared_symped "shared-symped" "workers = 1",
    fast n_copy "n-copy" "workers = 1",
    fast amped "amped" "workers = 1",
    full amped_processes "amped" "workers = 1\namped.helper-kind = \"process\"",
    full mp "mp" "mp.processes = 4",
    fast mt "mt" "workers = 1",
    full thread_per_connection "thread-per-connection" "workers = 1",
    full knot_c "knot-c" "workers = 1",
    full knot_a "knot-a" "workers = 1",
    fast watpipe "watpipe" "workers = 1",
    full tux "tux" "",
    fast uring "uring" "workers = 1",
    full uring_basic "uring" "workers = 1\nuring.features = \"basic\"",
}

/// A server on which one has to log in beneath `/dir`; `None` where it cannot run.
fn start(architecture: &str, settings: &str, users: &tempfile::NamedTempFile) -> Option<Server> {
    std::fs::write(users.path(), USERS).expect("users can be written");
    let (root, users) = (Site::shared().root(), users.path());
    let config = format!(
        "arch = \"{architecture}\"\n{settings}\n\
         [[site]]\nroot = {root:?}\nauth.file = {users:?}\nauth.paths = [\"/dir\"]\n"
    );
    Launch::config(config).start_where_possible()
}

/// Asks for what is protected, and then, on a connection that was there before, for what is not.
/// Gives back both connections: the first has not been read.
fn ask_both(server: &Server) -> (Client, Client) {
    let (mut slow, mut quick) = (server.connect(), server.connect());
    for client in [&mut slow, &mut quick] {
        assert_eq!(client.ask("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
    }
    slow.send(format!("GET /dir/ HTTP/1.1\r\nHost: a\r\n{LOGIN}\r\n"));
    (slow, quick)
}

fn a_password_delays_nobody_else(architecture: &str, settings: &str) {
    // Who is kept from running for a second on a busy machine has not been delayed by the server.
    let delayed = (0..ATTEMPTS).all(|_| delays_somebody(architecture, settings));
    assert!(!delayed, "the password was verified before others were answered, {ATTEMPTS} times");
}

/// Whether a password was verified before others were answered, where the architecture can run.
fn delays_somebody(architecture: &str, settings: &str) -> bool {
    let users = tempfile::NamedTempFile::new().expect("a temporary file");
    let Some(server) = start(architecture, settings, &users) else { return false };
    let (mut slow, mut quick) = ask_both(&server);
    for _ in 0..OTHERS {
        assert_eq!(quick.ask("GET /hello.txt HTTP/1.1\r\nHost: a\r\n\r\n").status(), 200);
        assert_eq!(quick.ask("GET /dir/ HTTP/1.1\r\nHost: a\r\n\r\n").status(), 401);
    }
    let delayed = slow.arrived();
    assert_eq!(slow.response().status(), 200);
    // It is remembered.
    let again = format!("GET /dir/ HTTP/1.1\r\nHost: a\r\n{LOGIN}\r\n");
    assert_eq!(slow.ask(&again).status(), 200);
    delayed
}
