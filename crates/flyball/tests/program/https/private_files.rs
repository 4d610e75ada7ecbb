//! Files that TLS is spoken by: no client gets one, whatever leads to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use flyball_testkit::wait::until;
use flyball_testkit::{Server, as_ourselves};

use crate::common::https::Authority;

const AT_MOST: Duration = Duration::from_secs(60);

/// What is in the file of tickets.
const TICKETS: &str = "forty-eight bytes that are as good as random....";

/// A server of the directory `rel1`, by the name `current`, with a key, a chain with its key apart,
/// and a file of tickets in `rel2`, where names in `rel1` lead.
fn start(authority: &Authority) -> Server {
    for name in ["rel1", "rel2", "sent"] {
        fs::create_dir(authority.path(name)).unwrap();
    }
    authority.issue("rel2/both.pem", &["a.test"]);
    authority.issue("rel2/key.pem", &["b.test"]);
    authority.write("rel2/tickets", TICKETS, 0o600);
    let both = fs::read_to_string(authority.path("rel2/key.pem")).unwrap();
    authority.write("rel2/chain.pem", &both[..both.find("-----BEGIN PRIVATE").unwrap()], 0o644);
    fs::write(authority.path("rel1/page"), "first").unwrap();
    fs::write(authority.path("rel2/page"), "second").unwrap();
    for name in ["both.pem", "key.pem", "chain.pem", "tickets"] {
        let private = authority.path("rel2").join(name);
        symlink(&private, authority.path("rel1").join(format!("link-{name}"))).unwrap();
        for directory in ["rel1", "sent"] {
            let hard = authority.path(directory).join(format!("hard-{name}"));
            fs::hard_link(&private, hard).unwrap();
        }
    }
    symlink("rel1", authority.path("current")).unwrap();
    let at = |name: &str| format!("{:?}", authority.path(name));
    let program = "#!/bin/sh\nprintf 'X-Sendfile: %s\\r\\n\\r\\n' \"$QUERY_STRING\"\n";
    authority.write("send", program, 0o755);
    let config = format!(
        "{}workers = 2\ncache.revalidate = \"100ms\"\n[tls]\nwatch = \"100ms\"\ntickets = {}\n\
         [[site]]\nhosts = [\"a.test\"]\nroot = {root}\nsymlinks = \"follow\"\n\
         fallback = \"/link-both.pem\"\ncertificate = {}\nlisting = true\n\
         [[site.cgi]]\npath = \"/send\"\nprogram = {}\nsendfile-roots = [{}]\n\
         [[site]]\nhosts = [\"b.test\"]\nroot = {root}\nsymlinks = \"follow\"\n\
         [[site.certificates]]\nchain = {}\nkey = {}\n",
        as_ourselves(),
        at("rel2/tickets"),
        at("rel2/both.pem"),
        at("send"),
        at("sent"),
        at("rel2/chain.pem"),
        at("rel2/key.pem"),
        root = at("current"),
    );
    authority.start(&config)
}

#[test]
fn keys_certificates_and_the_file_of_tickets_are_sent_to_no_client_whatever_leads_to_them() {
    let authority = Authority::new();
    let server = start(&authority);
    let get = |target: &str| {
        authority.curl(&server, "a.test", &["--request-target", &format!("/{target}")]).0
    };
    let kept = |target: &str| {
        let said = get(target);
        let is_private = said.contains("-----BEGIN") || said.contains(TICKETS);
        assert!(!is_private && said.ends_with("404"), "{target}: {said}");
    };
    let names = ["both.pem", "key.pem", "chain.pem", "tickets"];
    assert!(get("page").starts_with("first"));
    kept("what-is-not-there");
    for name in names {
        kept(&format!("link-{name}"));
        kept(&format!("hard-{name}"));
        let sent = authority.path("sent").join(format!("hard-{name}"));
        let said = get(&format!("send?{}", sent.display()));
        assert!(!said.contains("-----BEGIN") && !said.contains(TICKETS), "{name}: {said}");
    }
    let listed = get("?format=json");
    assert!(listed.contains("page") && !names.iter().any(|name| listed.contains(name)), "{listed}");
    // One that is renewed is another file, to which a link leads as before.
    authority.issue("rel2/both.pem", &["a.test"]);
    let renewed = || server.errors().contains("is in use").then_some(());
    assert!(until(AT_MOST, renewed).is_some(), "{}", server.errors());
    let is_kept = || get("link-both.pem").ends_with("404").then_some(());
    assert!(until(AT_MOST, is_kept).is_some(), "{}", get("link-both.pem"));
    (0..16).for_each(|_| kept("link-both.pem"));
    // So is the one that was there before, which has another name still, also after a reload.
    kept("hard-both.pem");
    server.reload();
    (0..16).for_each(|_| kept("hard-both.pem"));
    // The root is switched to where they lie.
    symlink("rel2", authority.path("next-root")).unwrap();
    fs::rename(authority.path("next-root"), authority.path("current")).unwrap();
    let is_switched = || get("page").starts_with("second").then_some(());
    assert!(until(AT_MOST, is_switched).is_some(), "{}", server.errors());
    names.iter().for_each(|name| kept(name));
    server.assert_sound();
}

/// Why a configuration with these sites is refused.
fn refused(authority: &Authority, sites: &str) -> String {
    authority.launch(sites).expect_err("something private may be sent").errors
}

#[test]
fn what_is_private_lies_beneath_nothing_that_is_sent_or_run_from_hidden_or_not() {
    let authority = Authority::new();
    for directory in ["root/.kept", "sent", "run"] {
        fs::create_dir(authority.path(directory)).unwrap();
    }
    fs::write(authority.path("sent/page"), "page").unwrap();
    authority.issue("a.pem", &["a.test"]);
    authority.write("program", "#!/bin/sh\n", 0o755);
    let at = |name: &str| format!("{:?}", authority.path(name));
    let cgi = |lines: String| format!("[[site.cgi]]\npath = \"/c\"\n{lines}\n");
    let sent = cgi(format!("program = {}\nsendfile-roots = [{}]", at("program"), at("sent")));
    let run = cgi(format!("root = {}", at("run")));
    for (place, how, lines) in [
        ("root", "which is shown", ""),
        ("root/.kept", "which is shown", ""),
        ("sent", "which backends have files sent from", &*sent),
        ("run", "which programs are run from", &*run),
    ] {
        let file = format!("{place}/both.pem");
        authority.issue(&file, &["a.test"]);
        let errors = refused(&authority, &authority.site("\"a.test\"", &file, lines));
        let beneath = Path::new(place).components().next().unwrap().as_os_str().display();
        let beneath = format!("{}, {how}: move it", authority.path(&beneath.to_string()).display());
        assert!(errors.contains("flyball.toml:4: site.certificate: "), "{errors}");
        assert!(errors.contains(&beneath), "{place}: {errors}");
        let tickets = format!("{place}/tickets");
        authority.write(&tickets, TICKETS, 0o600);
        let own = format!("[tls]\ntickets = {}\n", at(&tickets));
        let errors = refused(&authority, &(own + &authority.site("\"a.test\"", "a.pem", lines)));
        assert!(errors.contains("flyball.toml:2: tls.tickets: "), "{errors}");
        assert!(errors.contains(&beneath), "{place}: {errors}");
        let key = format!("{place}/account");
        authority.write(&key, "c2VjcmV0", 0o600);
        let own = format!("[acme]\nexternal-account = \"id\"\nexternal-key = {}\n", at(&key));
        let errors = refused(&authority, &(own + &authority.site("\"a.test\"", "a.pem", lines)));
        assert!(errors.contains("flyball.toml:3: acme.external-key: "), "{errors}");
        assert!(errors.contains(&beneath), "{place}: {errors}");
    }
    // A page that all clients are shown.
    let page = format!("[site.error-page]\n404 = {}", at("a.pem"));
    let errors = refused(&authority, &authority.site("\"a.test\"", "a.pem", &page));
    assert!(errors.contains("a.pem is for no client"), "{errors}");
}
