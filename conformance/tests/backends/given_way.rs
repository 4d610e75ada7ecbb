//! A path is answered by what it leads to now: when its file has given way to a script, or to
//! something that a rule closes, the caches give the file out no more.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::common_programs::on_every_architecture;
use crate::dynamic::answer;
use crate::house::{lay_out, serve};
use crate::rules::responder;
use flyball_testkit::{Client, wait};

/// Some paths are believed for so long that several requests fit in.
const SITE: &str = r#"
cache.revalidate = "300ms"
[[site]]
root = "HERE/app"
index = ["index.php", "index.html"]
fallback = "/index.php"
pretty-urls = true
return = [{ path = "/left.html", status = 410 }]
[[site.access]]
path = "/shut.html"
allow = ["10.0.0.0/8"]
[[site.scgi]]
extensions = ["php"]
socket = "SOCKET"
"#;

/// What gives way: the path that is asked for, the file that answers at first, the one that is
/// there instead, and the answer then.
type Case = (&'static str, &'static str, Option<&'static str>, (u16, &'static str));

const CASES: [Case; 6] = [
    ("/gone.txt", "gone.txt", None, (200, "script")),
    ("/large.txt", "large.txt", None, (200, "script")),
    ("/dir/", "dir/index.html", Some("dir/index.php"), (200, "script")),
    ("/moved", "moved", Some("moved.html"), (200, "instead")),
    ("/shut", "shut", Some("shut.html"), (403, "")),
    ("/left", "left", Some("left.html"), (410, "")),
];

/// Longer than what is kept in memory.
const LARGE_BYTES: usize = 300_000;

/// The status and the first word of the content.
fn get(client: &mut Client, path: &str) -> (u16, String) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let answer = answer(client);
    let word = answer.text.split(' ').next().unwrap_or_default();
    (answer.head.status(), word.to_owned())
}

fn a_file_that_gave_way_is_served_no_more(architecture: &str) {
    let files = CASES.iter().map(|(_, name, _, _)| {
        let len = if *name == "large.txt" { LARGE_BYTES } else { 1 };
        (*name, "first ".repeat(len))
    });
    let files = files.chain([("index.php", "<?php".to_owned())]);
    let here = lay_out(files.map(|(name, text)| (format!("app/{name}"), text)));
    let app = here.path().join("app");
    // A file that has just been written may change again within its time, and is not remembered.
    for (_, name, _, _) in CASES {
        let file = fs::File::options().write(true).open(app.join(name)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    }
    let socket = responder(|_| b"Content-Type: text/plain\n\nscript answers".to_vec());
    let Some(server) = serve(architecture, here.path(), &SITE.replace("SOCKET", &socket)) else {
        return;
    };
    // One connection, so that one process with its caches answers them all.
    let mut client = server.connect();
    for (path, ..) in CASES {
        for _ in 0..2 {
            assert_eq!(get(&mut client, path), (200, "first".into()), "{path}");
        }
    }
    for (_, before, after, _) in CASES {
        if let Some(after) = after {
            fs::write(app.join(after), "instead").unwrap();
        }
        fs::remove_file(app.join(before)).unwrap();
    }
    for (path, _, _, (status, text)) in CASES {
        let mut differs = || {
            let (found, word) = get(&mut client, path);
            let is_new = found == status && (text.is_empty() || word == text);
            (!is_new).then_some((found, word))
        };
        let mut is_new = || differs().is_none().then_some(());
        wait::until(wait::DEADLINE, &mut is_new)
            .unwrap_or_else(|| panic!("{path} stays as it was"));
        // Asked at once, within the time for which an entry that was looked at is believed.
        for _ in 0..4 {
            assert_eq!(differs(), None, "{path}");
        }
    }
}

on_every_architecture!([a_file_that_gave_way_is_served_no_more]);
