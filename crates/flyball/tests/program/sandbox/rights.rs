//! Names that others may change: what they lead to is opened by the rights of the workers' user,
//! and no link of others leads the server's own files elsewhere.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::common::{Launch, Server, get, last_get, signal, text, wait_for, within, write_script};
use flyball_sys::process::is_root;
use tempfile::TempDir;

/// Neither the superuser nor the workers' user.
const BOB: u32 = 61_001;

/// The workers' user and group.
const WORKER: u32 = 61_002;

/// A directory with `bob/site` of bob's, and `closed/inner` where only the superuser enters.
fn shared_machine() -> Option<TempDir> {
    if !is_root() {
        eprintln!("only the superuser has rights to lay down: not tested");
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| within(&directory, name);
    for (name, file, words) in
        [("bob/site", "page.txt", "bob's"), ("closed/inner", "page.txt", "closed")]
    {
        fs::create_dir_all(at(name)).expect("a directory can be made");
        fs::write(at(name).join(file), words).expect("a file can be written");
    }
    for (name, mode) in [("", 0o755), ("closed", 0o700)] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    for name in ["bob", "bob/site"] {
        chown(at(name), Some(BOB), Some(BOB)).expect("the superuser gives away");
    }
    Some(directory)
}

fn launch(directory: &TempDir, lines: &str) -> Launch {
    let user = format!("user = \"{WORKER}\"\ngroup = \"{WORKER}\"\nworkers = 1\n");
    let config = within(directory, "flyball.toml");
    fs::write(&config, user + "cache.revalidate = \"100ms\"\n" + lines).expect("it is written");
    let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&config), "--arch", "n-copy"]);
    launch.args(&["--listen", "127.0.0.1:0"])
}

fn site(root: &Path) -> String {
    format!("[[site]]\nroot = {:?}\n", text(root))
}

fn page(server: &Server) -> Vec<u8> {
    server.connect().ask(last_get("/page.txt")).body
}

#[track_caller]
fn refused(launch: Launch, why: &[&str]) {
    let Err((_, said)) = launch.try_start() else { panic!("it starts, in spite of {why:?}") };
    assert!(why.iter().all(|why| said.contains(why)), "{said}");
}

#[test]
fn an_error_page_is_read_by_the_workers_rights_and_the_rules_of_its_root() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    let lost = at("bob/site/lost.html");
    let lines = |symlinks: &str, page: &Path| {
        let page = text(page);
        let site = site(&at("bob/site"));
        format!("{site}symlinks = {symlinks:?}\n[site.error-page]\n404 = {page:?}\n")
    };
    symlink(at("closed/inner/page.txt"), &lost).expect("a link can be made");
    for symlinks in ["deny", "beneath"] {
        refused(launch(&directory, &lines(symlinks, &lost)), &["lost.html: a symbolic link"]);
    }
    let why = ["lost.html", "cannot be read by the workers' user 61002"];
    refused(launch(&directory, &lines("follow", &lost)), &why);
    let why = ["closed cannot be entered by the workers' user 61002"];
    refused(launch(&directory, &lines("deny", &at("closed/inner/page.txt"))), &why);
    fs::remove_file(&lost).expect("it can be removed");
    fs::write(&lost, "lost").expect("it is written");
    let server = launch(&directory, &lines("deny", &lost)).start();
    assert_eq!(server.connect().ask(get("/none")).body, b"lost");
}

/// The kernel asks for no rights on the way to what such a link names: that is open already.
#[test]
fn no_link_of_proc_leads_to_what_the_master_has() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    for (name, target) in [("cwd", "/proc/self/cwd"), ("maps", "/proc/self/maps")] {
        symlink(target, at("bob").join(name)).expect("a link can be made");
    }
    let pages = format!("[site.error-page]\n404 = {:?}\n", text(&at("bob/maps")));
    let alias = format!("[[site.alias]]\npath = \"/a\"\nroot = {:?}\n", text(&at("bob/cwd")));
    for lines in
        [site(&at("bob/cwd")), site(&at("bob/site")) + &pages, site(&at("bob/site")) + &alias]
    {
        refused(launch(&directory, &lines), &["leads to /proc"]);
    }
}

#[test]
fn where_the_server_is_started_may_be_closed_to_the_workers() {
    let Some(directory) = shared_machine() else { return };
    let launch = launch(&directory, &site(&within(&directory, "bob/site")));
    let server = launch.current_dir(&within(&directory, "closed")).start();
    assert_eq!(page(&server), b"bob's");
}

#[test]
fn a_root_that_is_closed_to_the_workers_is_no_root_and_does_not_take_the_place_of_one() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    let why = ["inner: ", "closed cannot be entered by the workers' user 61002"];
    refused(launch(&directory, &site(&at("closed/inner"))), &why);
    let server = launch(&directory, &site(&at("bob/site"))).start();
    assert_eq!(page(&server), b"bob's");
    fs::rename(at("bob/site"), at("bob/old")).expect("it can be renamed");
    symlink("../closed/inner", at("bob/site")).expect("a link can be made");
    let says = |said: &str| said.contains("a root stays what it was: ");
    server.errors.wait_for("the root that is kept", says);
    assert_eq!(page(&server), b"bob's");
    // What the workers may enter is served, and the line was written once.
    fs::remove_file(at("bob/site")).expect("it can be removed");
    fs::create_dir(at("bob/site")).expect("a directory can be made");
    fs::write(at("bob/site/page.txt"), "new").expect("a file can be written");
    wait_for("the new root", || (page(&server) == b"new").then_some(()));
    let said = server.errors.so_far();
    assert_eq!(said.matches("a root stays what it was: ").count(), 1, "{said}");
}

#[test]
fn what_one_user_closes_keeps_no_root_of_others_from_being_replaced() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    let make = |words: &str| {
        fs::create_dir(at("carol")).expect("a directory can be made");
        fs::write(at("carol/page.txt"), words).expect("a file can be written");
    };
    make("first");
    fs::write(at("bob/lost.html"), "lost").expect("it is written");
    let users = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";
    fs::write(at("users"), users).expect("it is written");
    let lines = format!(
        "{}{}hosts = [\"bob\"]\nauth.file = {:?}\nauth.failures = 2\n\
         auth.paths = [\"/page.txt\"]\n\
         [site.error-page]\n404 = {:?}\n",
        site(&at("carol")),
        site(&at("bob/site")),
        text(&at("users")),
        text(&at("bob/lost.html"))
    );
    let server = launch(&directory, &lines).start();
    assert_eq!(page(&server), b"first");
    let bobs = |path: &str, login: &str| {
        let login = format!("Authorization: Basic {login}");
        let ask = format!("GET {path} HTTP/1.1\r\nHost: bob\r\n{login}\r\n\r\n");
        server.connect().ask(ask)
    };
    let (ann, wrong) = ("YW5uOnNlY3JldA==", "YW5uOndyb25n");
    assert_eq!(bobs("/page.txt", wrong).status(), 401);
    // Both the root and the page are beneath it.
    fs::set_permissions(at("bob"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    fs::write(at("users"), "ann\n").expect("it is written");
    fs::remove_dir_all(at("carol")).expect("it can be removed");
    make("second");
    wait_for("the new root", || (page(&server) == b"second").then_some(()));
    assert_eq!(bobs("/page.txt", ann).body, b"bob's");
    assert_eq!(bobs("/none", ann).body, b"lost");
    // What was tried before counts.
    let statuses = [wrong, wrong].map(|login| bobs("/page.txt", login).status());
    assert_eq!(statuses, [401, 429]);
    let said = server.errors.wait_for("what is kept", |said| said.contains("users: line 1: "));
    for kept in ["bob cannot be entered", "again stays what it was: ", "lost.html"] {
        assert!(said.contains(kept), "{kept}: {said}");
    }
    // Who asks for a reload is told.
    signal(server.master(), "HUP");
    server.errors.wait_for("the reload", |said| said.contains("nothing changes:"));
    assert_eq!(page(&server), b"second");
}

/// What bob takes away, and the lines that name it: those of the server, and of bob's site.
fn what_may_be_gone(directory: &TempDir) -> Vec<(&'static str, String, String)> {
    let at = |name: &str| text(&within(directory, name)).to_owned();
    let of_site = |gone, lines: String| (gone, String::new(), lines);
    let of_server = |line: String| ("bob/dir", line, String::new());
    let dir = at("bob/dir");
    let fastcgi = "[[site.fastcgi]]\npath = \"/app\"\nsocket = \"unix:";
    let users = "user-directories = \"inner\"\nuser-table = ";
    vec![
        of_site("bob/dir", format!("{fastcgi}/none\"\nsendfile-roots = [{dir:?}]\n")),
        of_site("bob/dir", format!("[[site.cgi]]\npath = \"/cgi\"\nroot = {dir:?}\n")),
        of_site("bob/dir/p", format!("[[site.cgi]]\npath = \"/cgi\"\nprogram = \"{dir}/p\"\n")),
        of_site("bob/run", format!("{fastcgi}{}/s\"\nprogram = \"{dir}/p\"\n", at("bob/run"))),
        of_site("bob/socket", format!("{fastcgi}{}\"\n", at("bob/socket"))),
        of_site("bob/users", format!("{users}{:?}\n", at("bob/users"))),
        of_server(format!("access-log = \"{dir}/log\"\n")),
        of_server(format!("slow-log = \"{dir}/log\"\n")),
        of_server(format!("admin = \"unix:{dir}/admin\"\n")),
        of_server(format!("pid-file = \"{dir}/pid\"\n")),
    ]
}

#[test]
fn what_is_named_and_gone_keeps_no_root_of_others_from_being_replaced() {
    let kinds = shared_machine().map(|directory| what_may_be_gone(&directory).len());
    for number in 0..kinds.unwrap_or_default() {
        let Some(directory) = shared_machine() else { return };
        let at = |name: &str| within(&directory, name);
        for name in ["bob/dir", "bob/run", "bob/inner", "carol"] {
            fs::create_dir(at(name)).expect("a directory can be made");
        }
        chown(at("bob/run"), Some(WORKER), Some(WORKER)).expect("the superuser gives away");
        write_script(&at("bob/dir/p"), "exec sleep 1000");
        let users = format!("bob:x:{BOB}:1::{}:/x\n", text(&at("bob")));
        for (name, words) in
            [("bob/users", &*users), ("bob/inner/page.txt", "home"), ("carol/page.txt", "first")]
        {
            fs::write(at(name), words).expect("a file can be written");
        }
        let _listens = UnixListener::bind(at("bob/socket")).expect("a socket can be made");
        let (gone, of_server, of_bob) = what_may_be_gone(&directory).swap_remove(number);
        let bob = site(&at("bob/site")) + "hosts = [\"bob\"]\n";
        let lines = format!("{of_server}{}{bob}{of_bob}", site(&at("carol")));
        let launch = launch(&directory, &lines).asked().env("RUNTIME_DIRECTORY", at("run"));
        let server = launch.start();
        assert_eq!(page(&server), b"first");
        let away = at("bob/away");
        fs::rename(at(gone), &away).expect("it can be renamed");
        if gone == "bob/socket" {
            fs::write(at(gone), "no socket").expect("a file can be written");
        }
        fs::rename(at("carol"), at("old")).expect("it can be renamed");
        fs::create_dir(at("carol")).expect("a directory can be made");
        fs::write(at("carol/page.txt"), "second").expect("a file can be written");
        wait_for(&lines, || (page(&server) == b"second").then_some(()));
        if gone == "bob/users" {
            let ask = "GET /~bob/page.txt HTTP/1.1\r\nHost: bob\r\n\r\n";
            assert_eq!(server.connect().ask(ask).body, b"home");
            let says = |said: &str| said.contains("again stays what it was: ");
            server.errors.wait_for("what is kept", says);
        }
        // Who asks for a reload is told.
        signal(server.master(), "HUP");
        server.errors.wait_for(&lines, |said| said.contains("nothing changes:"));
        assert_eq!(page(&server), b"second");
        if gone == "bob/run" {
            // What is put back is used again.
            fs::rename(&away, at(gone)).expect("it can be renamed");
            wait_for("the socket", || UnixStream::connect(at("bob/run/s")).ok());
        }
    }
}

#[test]
fn a_user_whose_directory_is_closed_shows_nothing_and_stops_no_server() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    let users = format!(
        "bob:x:{BOB}:1::{}:/x\nann:x:61003:1::{}:/x\n",
        text(&at("bob")),
        text(&at("closed"))
    );
    fs::write(at("users"), users).expect("it is written");
    let users = "user-directories = \"inner\"\nuser-table = ";
    let lines = format!("{}{users}{:?}\n", site(&at("bob/site")), text(&at("users")));
    fs::create_dir(at("bob/inner")).expect("a directory can be made");
    fs::write(at("bob/inner/page.txt"), "home").expect("a file can be written");
    let server = launch(&directory, &lines).start();
    let status = |path: &str| server.connect().ask(last_get(path)).status();
    assert_eq!((status("/~bob/page.txt"), status("/~ann/page.txt")), (200, 404));
    fs::set_permissions(at("bob/inner"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    signal(server.master(), "HUP");
    server.errors.wait_for("the reload", |said| {
        said.contains("the configuration is loaded")
            && said.contains("site.user-directories: those of bob cannot be entered")
    });
    assert_eq!((status("/~bob/page.txt"), status("/page.txt")), (404, 200));
    drop(launch(&directory, &lines).start());
}

#[test]
#[ignore = "full tier"]
fn a_generation_for_a_replaced_root_waits_and_leaves_the_last_place_to_a_reload() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| within(&directory, name);
    let make = |words: &str| {
        fs::create_dir(at("site")).expect("a directory can be made");
        fs::write(at("site/page.txt"), words).expect("a file can be written");
        let large = fs::File::create(at("site/large")).expect("a file can be made");
        large.set_len(64 << 20).expect("it has room");
    };
    make("first");
    let config = at("flyball.toml");
    fs::write(&config, format!("cache.revalidate = \"100ms\"\n{}", site(&at("site"))))
        .expect("it is written");
    let server = Launch::bare::<&str>(&[])
        .args(&["--config", text(&config), "--arch", "n-copy", "--workers", "1"])
        .args(&["--listen", "127.0.0.1:0"])
        .start();
    let mut slow = server.connect();
    slow.send(get("/large"));
    assert_eq!(slow.response_head().status(), 200);
    let replace = |words: &str| {
        fs::remove_dir_all(at("site")).expect("it can be removed");
        make(words);
    };
    replace("second");
    wait_for("the second root", || (page(&server) == b"second").then_some(()));
    replace("third");
    let waits = |said: &str| said.contains("was replaced and is served later: an earlier");
    server.errors.wait_for("the third root to wait", waits);
    signal(server.master(), "HUP");
    let loaded = |said: &str| said.contains("the configuration is loaded");
    server.errors.wait_for("the reload", loaded);
    assert_eq!(page(&server), b"third");
}

#[test]
fn a_link_of_another_user_leads_no_log_and_no_pid_file_elsewhere() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    fs::create_dir(at("bob/logs")).expect("a directory can be made");
    let log = at("bob/logs/access.log");
    let lines = format!("access-log = {:?}\n{}", text(&log), site(&at("bob/site")));
    let server = launch(&directory, &lines).start();
    assert_eq!(page(&server), b"bob's");
    wait_for("a line", || fs::read_to_string(&log).ok().filter(|log| !log.is_empty()));
    fs::rename(at("bob/logs"), at("bob/old")).expect("it can be renamed");
    symlink("../closed", at("bob/logs")).expect("a link can be made");
    lchown(at("bob/logs"), Some(BOB), None).expect("the superuser gives away");
    for name in ["USR1", "HUP"] {
        let before = server.errors.so_far().len();
        signal(server.master(), name);
        server.errors.wait_for("what is wrong", |said| {
            said[before..].contains("logs is a symbolic link of another user")
        });
        assert_eq!(page(&server), b"bob's");
    }
    drop(server);
    refused(launch(&directory, &lines), &["logs is a symbolic link of another user"]);
    let pid = format!("pid-file = {:?}\n{}", text(&at("bob/logs/pid")), site(&at("bob/site")));
    let server = launch(&directory, &pid).start();
    server.errors.wait_for("the pid file", |said| said.contains("pid-file"));
    assert_eq!(fs::read_dir(at("closed")).expect("it is there").count(), 1);
    // One of the superuser is followed, as /var/run is.
    lchown(at("bob/logs"), Some(0), None).expect("it is the superuser's again");
    let _server = launch(&directory, &lines).start();
    assert!(at("closed/access.log").is_file());
}

#[test]
fn a_link_of_another_user_lets_workers_read_nothing_more() {
    let Some(directory) = shared_machine() else { return };
    let at = |name: &str| within(&directory, name);
    fs::create_dir(at("beside")).expect("a directory can be made");
    fs::write(at("beside/page.txt"), "beside").expect("a file can be written");
    symlink(at("beside/page.txt"), at("bob/site/out.txt")).expect("a link can be made");
    symlink("../beside", at("bob/via")).expect("a link can be made");
    let read = format!("sandbox-read = [{:?}]\n", text(&at("bob/via")));
    let lines = read + &site(&at("bob/site")) + "symlinks = \"follow\"\n";
    let page = |server: &Server| server.connect().ask(last_get("/out.txt")).body;
    let server = launch(&directory, &lines).start();
    assert_eq!(page(&server), b"beside");
    drop(server);
    lchown(at("bob/via"), Some(BOB), Some(BOB)).expect("the superuser gives away");
    let server = launch(&directory, &lines).start();
    server.errors.wait_for("a warning", |log| {
        log.contains("sandbox-read") && log.contains("via is a symbolic link of another user")
    });
    if has_landlock() {
        assert_ne!(page(&server), b"beside");
    }
}

/// Whether the kernel keeps workers to what they may read.
fn has_landlock() -> bool {
    flyball_sys::sandbox::Kernel::probe().landlock > 0
}
