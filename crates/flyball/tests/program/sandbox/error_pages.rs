//! Error pages beneath roots: whatever their names say, the rules of the site hold that they lie
//! in.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;

use crate::common::{Launch, last_get, text, wait_for, within};
use flyball_sys::process::is_root;
use tempfile::TempDir;

/// Two roots, `one` and `two`, a link `current` to the first, and a file outside.
fn machine() -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let at = |name: &str| within(&directory, name);
    for name in ["one/private", "two", "out", "x"] {
        fs::create_dir_all(at(name)).expect("a directory can be made");
    }
    for (name, words) in [
        ("one/page.txt", "one"),
        ("one/plain.html", "plain"),
        ("one/private/page.html", "private"),
        ("one/.hidden.html", "hidden"),
        ("one/gone.html", "gone"),
        ("one/run.php", "script"),
        ("out/secret.html", "secret"),
    ] {
        fs::write(at(name), words).expect("a file can be written");
    }
    for (target, name) in [
        ("one", "current"),
        ("../out/secret.html", "one/404.html"),
        ("../out/secret.html", "two/404.html"),
        ("../one/.hidden.html", "out/hidden.html"),
        ("private/page.html", "one/private.html"),
        (".hidden.html", "one/hidden.html"),
        ("gone.html", "one/returned.html"),
        ("run.php", "one/run.html"),
    ] {
        symlink(target, at(name)).expect("a link can be made");
    }
    directory
}

fn launch(directory: &TempDir, lines: &str) -> Launch {
    let config = within(directory, "flyball.toml");
    let own = "arch = \"n-copy\"\nworkers = 1\nlisten = \"127.0.0.1:0\"\n\
               cache.revalidate = \"100ms\"\n";
    fs::write(&config, format!("{own}{lines}")).expect("it is written");
    Launch::bare::<&str>(&[]).args(&["--config", text(&config)])
}

fn lines(root: &Path, page: &Path, more: &str, tables: &str) -> String {
    let (root, page) = (text(root), text(page));
    format!("[[site]]\nroot = {root:?}\n{more}\n[site.error-page]\n404 = {page:?}\n{tables}\n")
}

#[track_caller]
fn refused(launch: Launch, why: &str) {
    let Err((_, said)) = launch.try_start() else { panic!("it starts, in spite of {why:?}") };
    assert!(said.contains(why), "{said}");
}

#[track_caller]
fn shown(launch: Launch, page: &str) {
    let server = launch.start();
    let answer = server.connect().ask(last_get("/none"));
    assert_eq!((answer.status(), answer.text()), (404, page));
}

const KEPT_OUT: &str = "a symbolic link leads there that `symlinks` does not follow";

#[test]
fn an_error_page_lies_where_it_is_and_not_where_its_name_says() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    for (root, page) in [
        ("one", "one"),
        ("current", "one"),
        ("one", "current"),
        ("current", "current"),
        ("one", "x/../one"),
        ("x/../one", "one"),
        ("x/../one", "x/../one"),
        ("one", "one/private/.."),
    ] {
        for symlinks in ["deny", "beneath"] {
            let lines =
                |page: &str| lines(&at(root), &at(page), &format!("symlinks = {symlinks:?}"), "");
            let linked = launch(&directory, &lines(&format!("{page}/404.html")));
            refused(linked, KEPT_OUT);
        }
        let page = at(page).join("plain.html");
        let plain = lines(&at(root), &page, "symlinks = \"deny\"", "");
        shown(launch(&directory, &plain), "plain");
    }
    let relative = lines(&at("one"), Path::new("x/../one/404.html"), "symlinks = \"deny\"", "");
    refused(launch(&directory, &relative), KEPT_OUT);
    let follows = lines(&at("current"), &at("one/404.html"), "symlinks = \"follow\"", "");
    shown(launch(&directory, &follows), "secret");
}

#[test]
fn an_error_page_beneath_the_root_of_another_site_has_the_rules_of_that() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    let with_another = |symlinks: &str, more: &str| {
        let another = format!(
            "[[site]]\nhosts = [\"two\"]\nroot = {:?}\nsymlinks = {symlinks:?}\n{more}",
            text(&at("two"))
        );
        lines(&at("one"), &at("two/404.html"), "symlinks = \"follow\"", &another)
    };
    refused(launch(&directory, &with_another("deny", "")), KEPT_OUT);
    shown(launch(&directory, &with_another("follow", "")), "secret");
    fs::remove_file(at("two/404.html")).expect("it can be removed");
    fs::write(at("two/404.html"), "plain").expect("it is written");
    shown(launch(&directory, &with_another("deny", "")), "plain");
    let php = "[[site.fastcgi]]\nextensions = [\"html\"]\nsocket = \"127.0.0.1:9\"\n";
    refused(launch(&directory, &with_another("deny", php)), "is a script, not a page");
}

#[test]
fn a_link_leads_no_error_page_to_what_is_not_shown_to_all() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    let php = "[[site.fastcgi]]\nextensions = [\"php\"]\nsocket = \"127.0.0.1:9\"\n\
               [[site.access]]\npath = \"/private\"\ndeny = [\"10.0.0.0/8\"]\n\
               [[site.return]]\npath = \"/gone.html\"\nstatus = 410\n";
    let page = |page: &str, more: &str| {
        let more = format!("symlinks = \"beneath\"\n{more}");
        launch(&directory, &lines(&at("one"), &at(page), &more, php))
    };
    let closed = "is a link to what its site does not show to all";
    for name in ["one/private.html", "one/hidden.html", "current/hidden.html", "out/hidden.html"] {
        refused(page(name, ""), closed);
    }
    refused(page("one/returned.html", ""), closed);
    for name in ["one/run.html", "one/run.php", "x/../one/run.php", "current/run.php"] {
        refused(page(name, ""), "is a script, not a page");
    }
    // What is named itself is shown: who runs the server has chosen it.
    for (name, words) in [
        ("one/private/page.html", "private"),
        ("current/.hidden.html", "hidden"),
        ("x/../one/gone.html", "gone"),
    ] {
        shown(page(name, ""), words);
    }
    shown(page("one/hidden.html", "hidden = true"), "hidden");
    // A link to the root itself chooses no page, and one beneath it does.
    shown(page("current/plain.html", "deny = [\"10.0.0.0/8\"]"), "plain");
    for (target, name) in [("plain.html", "one/also.html"), (".", "one/self")] {
        symlink(target, at(name)).expect("a link can be made");
    }
    for name in ["one/also.html", "one/self/plain.html", "current/self/plain.html"] {
        refused(page(name, "deny = [\"10.0.0.0/8\"]"), closed);
        shown(page(name, ""), "plain");
    }
}

#[test]
fn a_link_beneath_a_root_to_that_of_a_closed_site_is_refused() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    fs::write(at("two/index.html"), "intranet").expect("a file can be written");
    symlink("../two", at("one/errors")).expect("a link can be made");
    let page = |rule: &str| {
        let two = format!("[[site]]\nhosts = [\"two\"]\nroot = {:?}\n{rule}\n", text(&at("two")));
        let follow = "symlinks = \"follow\"";
        launch(&directory, &lines(&at("one"), &at("one/errors/index.html"), follow, &two))
    };
    for rule in [
        "deny = [\"10.0.0.0/8\"]",
        "[[site.return]]\npath = \"/index.html\"\nstatus = 410",
        "[[site.access]]\nmatch = \"/index.html\"\ndeny = [\"10.0.0.0/8\"]",
    ] {
        refused(page(rule), "is a link to what its site does not show to all");
    }
    shown(page("symlinks = \"follow\""), "intranet");
    refused(page("symlinks = \"deny\""), KEPT_OUT);
}

#[test]
fn a_link_into_a_directory_that_backends_send_from_is_refused() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    symlink("../one/private/page.html", at("out/sent.html")).expect("a link can be made");
    symlink("../one/private", at("x/sent")).expect("a link can be made");
    let tables = |denied: &str| {
        format!(
            "[[site.access]]\npath = {denied:?}\ndeny = [\"10.0.0.0/8\"]\n\
             [[site.scgi]]\nextensions = [\"php\"]\nsocket = \"127.0.0.1:9\"\n\
             sendfile-roots = [{:?}]\n",
            text(&at("one/private"))
        )
    };
    for denied in ["/private", "/elsewhere"] {
        let page =
            |page: &str| launch(&directory, &lines(&at("one"), &at(page), "", &tables(denied)));
        for name in ["out/sent.html", "one/private.html"] {
            refused(page(name), "is a link to what its site does not show to all");
        }
        shown(page("one/private/page.html"), "private");
    }
}

#[test]
fn a_link_from_outside_into_a_root_is_one_of_that_root() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    fs::create_dir(at("one/open")).expect("a directory can be made");
    fs::write(at("one/open/plain.html"), "open").expect("a file can be written");
    symlink("../one/plain.html", at("out/plain.html")).expect("a link can be made");
    symlink("../one/open", at("x/open")).expect("a link can be made");
    for (name, words) in [("out/plain.html", "plain"), ("x/open/plain.html", "open")] {
        let page = |symlinks: &str| {
            let symlinks = format!("symlinks = {symlinks:?}");
            launch(&directory, &lines(&at("one"), &at(name), &symlinks, ""))
        };
        refused(page("deny"), KEPT_OUT);
        shown(page("beneath"), words);
    }
}

/// A user who runs nothing here.
const OTHER: u32 = 61_001;

/// What only root and the users of the server may read, and links of another user to all of it.
fn machine_of_two() -> TempDir {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    for (name, words) in
        [("two/index.html", "intranet"), ("out/program", "#!/bin/sh\n"), ("out/users", "ann:$2y$")]
    {
        fs::write(at(name), words).expect("a file can be written");
    }
    fs::create_dir(at("theirs")).expect("a directory can be made");
    for (target, name) in [
        ("../two/index.html", "file.html"),
        ("../two", "directory"),
        ("..", "above"),
        ("../out/program", "program.html"),
        ("../out/users", "users.html"),
    ] {
        let link = at("theirs").join(name);
        symlink(target, &link).expect("a link can be made");
        lchown(link, Some(OTHER), None).expect("a link can be given away");
    }
    directory
}

#[test]
fn a_link_of_another_user_outside_of_roots_leads_to_files_of_that_user_alone() {
    if !is_root() {
        return eprintln!("only the superuser makes links of others: not tested");
    }
    let directory = machine_of_two();
    let at = |name: &str| within(&directory, name);
    let page = |name: &str, rule: &str| {
        let two = at("two");
        let closed = format!("[[site]]\nhosts = [\"two\"]\nroot = {:?}\n{rule}", text(&two));
        launch(&directory, &lines(&at("one"), &at("theirs").join(name), "", &closed))
    };
    let deny = "deny = [\"10.0.0.0/8\"]\n";
    let returned = "[[site.return]]\npath = \"/index.html\"\nstatus = 410\n";
    let why = "is a symbolic link of another user, which is not followed";
    for name in ["file.html", "directory/index.html", "above/two/index.html"] {
        for rule in [deny, returned, ""] {
            refused(page(name, rule), why);
        }
    }
    for name in ["program.html", "users.html", "above/out/secret.html"] {
        refused(page(name, ""), why);
    }
    chown(at("two/index.html"), Some(OTHER), None).expect("a file can be given away");
    refused(page("file.html", deny), "is a link to what its site does not show to all");
    shown(page("file.html", ""), "intranet");
    for name in ["directory/index.html", "above/two/index.html"] {
        shown(page(name, ""), "intranet");
    }
}

#[test]
fn a_directory_that_becomes_a_link_of_another_user_changes_no_page() {
    if !is_root() {
        return eprintln!("only the superuser makes links of others: not tested");
    }
    let directory = machine_of_two();
    let at = |name: &str| within(&directory, name);
    fs::create_dir(at("x/errors")).expect("a directory can be made");
    fs::write(at("x/errors/index.html"), "ours").expect("a file can be written");
    let two = format!(
        "[[site]]\nhosts = [\"two\"]\nroot = {:?}\ndeny = [\"10.0.0.0/8\"]\n",
        text(&at("two"))
    );
    let page = at("x/errors/index.html");
    let server = launch(&directory, &lines(&at("one"), &page, "", &two)).start();
    let ask = |path: &str| server.connect().ask(last_get(path)).text().to_owned();
    assert_eq!(ask("/none"), "ours");
    fs::rename(at("x/errors"), at("x/before")).expect("it can be renamed");
    symlink("../two", at("x/errors")).expect("a link can be made");
    lchown(at("x/errors"), Some(OTHER), None).expect("a link can be given away");
    fs::create_dir(at("new")).expect("a directory can be made");
    fs::write(at("new/page.txt"), "new").expect("a file can be written");
    fs::rename(at("one"), at("old")).expect("it can be renamed");
    fs::rename(at("new"), at("one")).expect("it can be renamed");
    wait_for("the new root", || (ask("/page.txt") == "new").then_some(()));
    assert_eq!(ask("/none"), "ours");
    server.errors.wait_for("what is kept", |said| said.contains("link of another user"));
}

#[test]
fn a_page_that_becomes_a_link_stays_what_it_was_when_its_root_is_replaced() {
    let directory = machine();
    let at = |name: &str| within(&directory, name);
    let page = at("x/../one/plain.html");
    let server = launch(&directory, &lines(&at("one"), &page, "symlinks = \"deny\"", "")).start();
    let ask = |path: &str| server.connect().ask(last_get(path)).text().to_owned();
    assert_eq!((ask("/page.txt"), ask("/none")), ("one".into(), "plain".into()));
    fs::create_dir(at("new")).expect("a directory can be made");
    fs::write(at("new/page.txt"), "new").expect("a file can be written");
    symlink("../out/secret.html", at("new/plain.html")).expect("a link can be made");
    fs::rename(at("one"), at("old")).expect("it can be renamed");
    fs::rename(at("new"), at("one")).expect("it can be renamed");
    wait_for("the new root", || (ask("/page.txt") == "new").then_some(()));
    assert_eq!(ask("/none"), "plain");
    server.errors.wait_for("what is kept", |said| said.contains(KEPT_OUT));
}
