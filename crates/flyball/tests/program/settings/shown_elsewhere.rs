//! What lies beneath a root of another site, or is the server's own beneath any root: `flyball
//! check` warns of it.

use std::fs;
use std::process::Command;

use flyball_testkit::binary;
use tempfile::TempDir;

/// `ann:secret`, by a hash of the lowest cost.
const USERS: &str = "ann:$2y$04$ViUvEMhOIe9hKRT8ricqau0EnQEXaPe7Rz9cVB8fJof.xyY.s2pPy\n";

fn lay_out() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["www/app/adm", "www/app/kept", "www/.git", "media", "logs"] {
        fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    fs::write(directory.path().join("users"), USERS).unwrap();
    directory
}

/// What is said of these settings, in which HERE is the directory.
fn said(directory: &TempDir, text: &str) -> Vec<String> {
    let here = directory.path().display().to_string();
    let path = directory.path().join("flyball.toml");
    fs::write(&path, text.replace("HERE", &here)).unwrap();
    let mut check = Command::new(binary());
    let told = check.args(["check", "--config"]).arg(&path).output().unwrap();
    assert!(told.status.success(), "{told:?}");
    let told = String::from_utf8(told.stderr).unwrap().replace(&here, "HERE");
    told.lines().map(str::to_owned).collect()
}

#[track_caller]
fn has(said: &[String], words: &[&str]) {
    let fits = |line: &&String| words.iter().all(|word| line.contains(word));
    assert_eq!(said.iter().filter(fits).count(), 1, "{words:?} {said:#?}");
}

const WWW: &str = "[[site]]\nroot = \"HERE/www\"\n";

const APP: &str = "[[site]]\nhosts = [\"app\"]\nroot = \"HERE/www/app\"\n";

const LOGIN: &str = "auth.file = \"HERE/users\"\nauth.paths = [\"/adm\"]\n";

const PHP: &str = "[[site.scgi]]\nextensions = [\"php\"]\nsocket = \"127.0.0.1:9\"\n";

#[test]
fn what_one_site_closes_or_runs_and_another_shows_is_told() {
    let here = lay_out();
    let of = |text: &str| said(&here, text);
    let both = of(&format!("{WWW}{APP}{LOGIN}{PHP}"));
    assert_eq!(both.len(), 2, "{both:#?}");
    let closed = ["site.auth.paths: HERE/www/app/adm is closed at /adm", "/app/adm of the site"];
    has(&both, &closed);
    has(&both, &["site.scgi: scripts of HERE/www/app are sent as files at /app of the site \"*\""]);
    // The other way round, and by an alias.
    let alias = "[[site.alias]]\npath = \"/a\"\nroot = \"HERE/www/app/adm\"\n";
    has(&of(&format!("{WWW}auth.file = \"HERE/users\"\n{APP}")), &["closed at / and shown at /"]);
    let media = "[[site]]\nroot = \"HERE/media\"\n";
    has(&of(&format!("{media}{alias}{APP}{LOGIN}")), &["shown at /a of the site"]);
    has(&of(&format!("{WWW}{APP}allow = \"::1\"\n")), &["site.allow: HERE/www/app is closed at /"]);
    let returned = "[[site.return]]\npath = \"/adm\"\nstatus = 404\n";
    has(&of(&format!("{WWW}{APP}{returned}")), &["site.return: HERE/www/app/adm is closed"]);
    for text in [
        format!("{WWW}{APP}"),
        format!("{media}{APP}{LOGIN}{PHP}"),
        // The other closes and runs it too.
        format!(
            "{WWW}auth.file = \"HERE/users\"\nauth.paths = [\"/app/adm\"]\n{PHP}{APP}{LOGIN}{PHP}"
        ),
        format!("{WWW}[[site]]\nhosts = [\"app\"]\nroot = \"HERE/www/.git\"\n{LOGIN}"),
    ] {
        assert_eq!(of(&text), [""; 0], "{text}");
    }
}

#[test]
fn what_is_the_servers_own_or_for_programs_to_send_is_told_where_clients_get_it() {
    let here = lay_out();
    let of = |text: &str| said(&here, text);
    let sent = format!("{PHP}sendfile-roots = [\"HERE/www/app/kept\"]\n");
    let closed = "[[site.return]]\npath = \"/kept\"\nstatus = 403\n";
    for (text, url) in [
        (format!("{APP}{sent}"), "/kept of the site \"app\""),
        (format!("{WWW}{PHP}{APP}{closed}{sent}"), "/app/kept of the site \"*\""),
    ] {
        let words = format!("sendfile-roots: HERE/www/app/kept is shown at {url}: ");
        has(&of(&text), &[&words]);
    }
    assert_eq!(of(&format!("{APP}{closed}{sent}")), [""; 0]);
    for (key, name) in [
        ("access-log", "access.log"),
        ("slow-log", "slow.log"),
        ("pid-file", "pid"),
        ("spool.directory", ""),
    ] {
        let line = |below: &str| format!("{key} = \"HERE/{below}/{name}\"\n{WWW}{PHP}");
        has(&of(&line("www/app")), &[key, "lies beneath a root, and clients get it at /app/"]);
        for below in ["logs", "www/.git"] {
            let told = of(&line(below));
            assert!(!told.iter().any(|line| line.contains("beneath a root")), "{told:?}");
        }
    }
    // The file of settings itself.
    let around = of("[[site]]\nroot = \"HERE\"\n");
    has(
        &around,
        &["HERE/flyball.toml: it lies beneath a root, and clients get it at /flyball.toml"],
    );
    assert_eq!(
        of("[[site]]\nroot = \"HERE\"\n[[site.return]]\npath = \"/flyball.toml\"\nstatus = 404\n"),
        [""; 0]
    );
}
