//! The configurations that are shown as examples are ones that run.
use std::path::{Path, PathBuf};
use std::process::Command;

use flyball_testkit::{Launch, Server, binary, wait};

/// The file of this name, from the top of the repository.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// The text with what it takes from the environment set to places of a test.
fn in_place(text: &str, directory: &Path) -> String {
    let directory = directory.display().to_string();
    let with = |text: String, name: &str, default: &str, value: &str| {
        let variable = format!("${{{name}:-{default}}}");
        assert!(text.contains(&variable), "{variable}");
        text.replace(&variable, value)
    };
    let text = with(text.to_owned(), "FLYBALL_LISTEN", "80", "127.0.0.1:0");
    let text = with(text, "FLYBALL_USER", "flyball", "auto");
    let text = with(text, "FLYBALL_RUN", "/run/flyball", &directory);
    let text = with(text, "FLYBALL_LOGS", "/var/log/flyball", &directory);
    with(text, "FLYBALL_ROOT", "/var/www/html", &directory)
}

/// Serves an example that takes LISTEN and ROOT from the environment. `flyball check` has nothing
/// to say of it.
fn serve(name: &str, listen: &str, root: (&str, &Path), files: &[(&str, &str)]) -> Server {
    let (default, root) = root;
    for (path, text) in files {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
        std::fs::write(path, text).expect("it is written");
    }
    let path = file(&format!("examples/{name}.toml"));
    let mut check = Command::new(binary());
    let check = check.args(["check", "--config"]).arg(&path);
    let output = check.env("ROOT", root).env("LISTEN", "127.0.0.1:0").output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let text = std::fs::read_to_string(&path).expect("the example");
    let directory = root.display().to_string();
    let text = text
        .replace(&format!("${{LISTEN:-{listen}}}"), "127.0.0.1:0")
        .replace(&format!("${{ROOT:-{default}}}"), &directory)
        .replace("access-log = \"-\"", &format!("access-log = \"{directory}/access.log\""));
    Launch::config(text).start().unwrap_or_else(|refused| panic!("{refused}"))
}

/// Asks for a path of a host: status, `Cache-Control` or `Location`, and the body.
fn ask(server: &Server, host: &str, path: &str) -> (u16, String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let answer = server.connect().ask(request);
    let field = answer.field("location").or(answer.field("cache-control")).unwrap_or_default();
    (answer.status(), field.to_owned(), answer.text().to_owned())
}

#[test]
fn a_single_page_application_has_every_path_without_a_dot() {
    let root = tempfile::tempdir().expect("a directory");
    let files = [("index.html", "app"), ("assets/app-1.js", "code")];
    let server = serve("single-page-app", "80", ("/srv/app", root.path()), &files);
    let told = |path: &str| ask(&server, "a", path);
    assert_eq!(told("/posts/7"), (200, "no-cache".into(), "app".into()));
    assert_eq!(told("/").2, "app");
    let (status, control, body) = told("/assets/app-1.js");
    assert_eq!((status, &*body), (200, "code"));
    assert_eq!(control, "public, max-age=31536000, immutable");
    assert_eq!(told("/assets/app-0.js").0, 404);
}

#[test]
fn a_static_site_has_one_name_and_the_other_redirects_to_it() {
    let root = tempfile::tempdir().expect("a directory");
    let files = [("index.html", "posts"), ("about.html", "about us"), ("404.html", "no such post")];
    let server = serve("static-blog", "80", ("/srv/blog", root.path()), &files);
    assert_eq!(ask(&server, "example.org", "/about").2, "about us");
    let (status, _, body) = ask(&server, "example.org", "/none");
    assert_eq!((status, &*body), (404, "no such post"));
    let (status, location, _) = ask(&server, "www.example.org", "/2026/a?b=c");
    assert_eq!((status, &*location), (308, "http://example.org/2026/a?b=c"));
}

#[test]
fn downloads_are_limited_for_each_address() {
    let root = tempfile::tempdir().expect("a directory");
    let files = [("release.tar.gz", "archive")];
    let server = serve("downloads", "80", ("/srv/files", root.path()), &files);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for client in &mut clients {
        let answer = client.ask(get("/release.tar.gz"));
        assert_eq!((answer.status(), answer.text()), (200, "archive"));
    }
    assert_eq!(server.connect().ask(get("/release.tar.gz")).status(), 429);
    let listing = clients[0].ask(get("/?format=json"));
    assert!(listing.text().contains("release.tar.gz"), "{}", listing.text());
    assert!((0..2_000).any(|_| clients[0].ask(get("/")).status() == 429));
}

#[test]
fn each_directory_of_shared_hosting_is_a_host() {
    let root = tempfile::tempdir().expect("a directory");
    let files = [("a.test/public/index.html", "a"), ("b.test/public/index.html", "b")];
    let server = serve("shared-hosting", "80", ("/srv/hosts", root.path()), &files);
    for (host, status, text) in [("a.test", 200, "a"), ("b.test", 200, "b")] {
        let (got, _, body) = ask(&server, host, "/");
        assert_eq!((got, &*body), (status, text), "{host}");
    }
    assert_eq!(ask(&server, "c.test", "/").0, 421);
}

/// The line of the access log of the container after a request that claims to be of 192.0.2.7.
fn logged(server: &Server, root: &Path) -> String {
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n";
    assert_eq!(server.connect().ask(request).text(), "page");
    let log = root.join("access.log");
    let line = wait::until(wait::DEADLINE, || {
        std::fs::read_to_string(&log).ok().filter(|text| text.ends_with('\n'))
    });
    let line = line.expect("a line of the log");
    assert!(line.starts_with('{'), "{line}");
    line
}

#[test]
fn a_container_believes_no_client_and_logs_the_one_that_a_listed_proxy_names() {
    let root = tempfile::tempdir().expect("a directory");
    let server = serve("container", "8080", ("/srv", root.path()), &[("index.html", "page")]);
    let line = logged(&server, root.path());
    assert!(line.contains("\"127.0.0.1\"") && !line.contains("192.0.2.7"), "{line}");
    drop(server);
    let text = std::fs::read_to_string(file("examples/container.toml")).expect("the example");
    let text = text
        .replace("# [client]", "[client]")
        .replace("# address = ", "address = ")
        .replace("# trusted = [\"10.89.0.2\"]", "trusted = [\"127.0.0.1\"]")
        .replace("${LISTEN:-8080}", "127.0.0.1:0")
        .replace("${ROOT:-/srv}", &root.path().display().to_string())
        .replace("\"-\"", &format!("\"{}/access.log\"", root.path().display()));
    std::fs::remove_file(root.path().join("access.log")).expect("it is there");
    let server = Launch::config(text).start().unwrap_or_else(|refused| panic!("{refused}"));
    let line = logged(&server, root.path());
    assert!(line.contains("\"192.0.2.7\""), "{line}");
}

#[test]
fn the_production_configuration_serves() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("index.html"), "<p>hello").expect("a page");
    let text = std::fs::read_to_string(file("examples/production.toml")).expect("the example");
    let server = Launch::config(in_place(&text, directory.path())).start().expect("it starts");
    let answer =
        server.connect().ask("GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status(), answer.text()), (200, "<p>hello"));
    assert_eq!(answer.field("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.field("server"), None);
    let admin = format!("unix:{}/admin.sock", directory.path().display());
    let status = Command::new(binary()).args(["ctl", "status", "--admin", &admin]).output();
    assert!(status.expect("it runs").status.success());
    // Nothing that it says is ignored or cut on a machine with the limits of any.
    assert!(!server.errors().contains("is ignored"), "{}", server.errors());
}

#[test]
fn every_line_of_the_production_configuration_has_its_reason() {
    let text = std::fs::read_to_string(file("examples/production.toml")).expect("the example");
    // Each key and each head of a table has a comment of its own right above it.
    let mut above = "";
    let mut told = 0;
    for (at, line) in text.lines().enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            let reason = above.strip_prefix("# ").unwrap_or_default();
            assert!(!reason.is_empty(), "line {}: no reason for {line}", at + 1);
            told += 1;
        }
        above = line;
    }
    assert!(told > 30, "{told} lines");
}

/// Who stops the server waits for longer than its downloads may take.
#[test]
fn the_unit_gives_the_production_configuration_time_to_drain() {
    let text = |name: &str| std::fs::read_to_string(file(name)).expect("it is there");
    let seconds = |text: &str, key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        let value = value.trim_matches('"');
        let minutes = value.strip_suffix("min").map(|n| 60 * n.parse::<u64>().expect("minutes"));
        minutes.or_else(|| value.strip_suffix('s')?.parse().ok()).expect("a time")
    };
    let stop = seconds(&text("deploy/systemd/flyball.service"), "TimeoutStopSec=");
    let drain = seconds(&text("examples/production.toml"), "drain = ");
    assert!(stop > drain + 2, "{drain} s to drain, and it is killed after {stop}");
}
