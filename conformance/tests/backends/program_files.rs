//! Where the file of a program is looked for: once, by the links that may be followed, and it runs
//! in the directory where it was found.

use std::fs;
use std::os::unix::fs::symlink;

use flyball_testkit::Server;

use crate::common_programs::on_every_architecture;
use crate::dynamic::answer;
use crate::house::{lay_out, serve};

/// Tells where it runs, and by which names it was called.
const SCRIPT: &str =
    "#!/bin/sh\necho A: b; echo; echo $0 in $(pwd -P) as $SCRIPT_FILENAME; cat note\n";

const SITES: &str = r#"
[[site]]
root = "HERE/www"
symlinks = "follow"
[[site.cgi]]
path = "/one"
program = "HERE/own/bin/run"
[[site.cgi]]
path = "/any"
root = "HERE/programs"
"#;

fn get(server: &Server, path: &str) -> (u16, String) {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let answer = answer(&mut client);
    (answer.status(), answer.text)
}

fn a_program_runs_where_it_was_found_and_none_is_found_by_way_of_proc(architecture: &str) {
    let here = lay_out([
        ("www/page", "a page".to_owned()),
        ("own/real/run", SCRIPT.to_owned()),
        ("own/real/note", "of own".to_owned()),
        ("programs/sub/run", SCRIPT.to_owned()),
        ("programs/sub/note", "of sub".to_owned()),
        ("closed/run", SCRIPT.to_owned()),
        ("closed/note", "closed".to_owned()),
    ]);
    let at = |name: &str| here.path().join(name);
    let shown = |name: &str| at(name).display().to_string();
    symlink("real", at("own/bin")).unwrap();
    symlink("sub", at("programs/near")).unwrap();
    symlink("../sub/run", at("programs/sub/again")).unwrap();
    symlink(format!("/proc/self/root{}", shown("closed")), at("programs/proc")).unwrap();
    symlink("/proc/self/exe", at("programs/exe")).unwrap();
    let Some(server) = serve(architecture, here.path(), SITES) else { return };
    let said = |name: &str, directory: &str, called: &str, note: &str| {
        (200, format!("./{name} in {} as {}\n{note}", shown(directory), shown(called)))
    };
    assert_eq!(get(&server, "/one/x"), said("run", "own/real", "own/bin/run", "of own"));
    for (path, name, called) in [
        ("/any/sub/run", "run", "programs/sub/run"),
        ("/any/sub/run/more", "run", "programs/sub/run"),
        ("/any/near/run", "run", "programs/near/run"),
        ("/any/sub/again", "again", "programs/sub/again"),
    ] {
        assert_eq!(get(&server, path), said(name, "programs/sub", called, "of sub"), "{path}");
    }
    for path in ["/any/proc/run", "/any/exe", "/any/sub/none"] {
        assert_eq!(get(&server, path).0, 404, "{path}");
    }
    // The owner of a directory above makes it lead where only the server may go.
    fs::remove_file(at("own/bin")).unwrap();
    symlink(format!("/proc/self/root{}", shown("closed")), at("own/bin")).unwrap();
    assert_eq!(get(&server, "/one").0, 404);
}

on_every_architecture!([a_program_runs_where_it_was_found_and_none_is_found_by_way_of_proc]);
