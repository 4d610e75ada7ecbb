//! A root that is replaced, as builds and deployments do, is served without a reload.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{Launch, Server, last_get, text, wait_for, within};

/// Makes a directory with a page of these words.
fn make(directory: &Path, words: &str) {
    fs::create_dir(directory).expect("a directory can be made");
    fs::write(directory.join("page.txt"), words).expect("a file can be written");
}

fn page(server: &Server) -> Vec<u8> {
    let answer = server.connect().ask(last_get("/page.txt"));
    if answer.status() == 200 { answer.body } else { Vec::new() }
}

#[test]
#[ignore = "full tier"]
fn a_root_that_is_replaced_or_a_link_that_is_switched_is_served() {
    for arch in ["sped", "mt", "uring"] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| within(&directory, name);
        make(&at("first"), "first");
        symlink("first", at("current")).expect("a link can be made");
        let lines = format!(
            "arch = {arch:?}\nworkers = 1\ncache.revalidate = \"100ms\"\n\
             [[site]]\nroot = {:?}\n",
            text(&at("current"))
        );
        fs::write(at("flyball.toml"), lines).expect("the file is written");
        let launch = Launch::bare::<&str>(&[]).args(&["--config", text(&at("flyball.toml"))]);
        let server = launch.args(&["--listen", "127.0.0.1:0"]).start();
        assert_eq!(page(&server), b"first", "{arch}");

        make(&at("second"), "second");
        symlink("second", at("next")).expect("a link can be made");
        fs::rename(at("next"), at("current")).expect("a link can be switched");
        wait_for("the other directory", || (page(&server) == b"second").then_some(()));

        // While it is not there, what is open goes on.
        fs::remove_dir_all(at("second")).expect("it can be removed");
        make(&at("second"), "third");
        wait_for("the directory that was made again", || (page(&server) == b"third").then_some(()));
    }
}
