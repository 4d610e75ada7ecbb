//! Certificates and their keys: which are refused, which are shown, and how they are renewed.

use std::fs;
use std::process::Command;
use std::time::Duration;

use flyball_testkit::binary;
use flyball_testkit::wait::until;
use rcgen::date_time_ymd;

use crate::common::https::Authority;

/// A look at the certificates comes ten times in a second.
const WATCH: &str = "[tls]\nwatch = \"100ms\"\n";

const AT_MOST: Duration = Duration::from_secs(60);

#[test]
fn a_site_is_served_by_the_certificate_that_names_it() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue("b.pem", &["*.b.test"]);
    let sites =
        authority.site("\"a.test\"", "a.pem", "") + &authority.site("\"*.b.test\"", "b.pem", "");
    let server = authority.start(&sites);
    for host in ["a.test", "x.b.test"] {
        let (said, output) = authority.curl(&server, host, &[]);
        assert_eq!(said, "over TLS\n200", "{host}: {output:?}");
    }
    let shown = authority.openssl(&server, "nowhere.test", &[]);
    assert!(authority.is_in("a.pem", &shown), "the default:\n{shown}");
    server.assert_sound();
}

#[test]
fn what_cannot_be_used_is_told_with_its_line_and_its_file() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue("b.pem", &["b.test"]);
    let read = |name: &str| fs::read_to_string(authority.path(name)).unwrap();
    let (a, b) = (read("a.pem"), read("b.pem"));
    let key = "-----BEGIN PRIVATE KEY-----";
    let (of_a, of_b) = (a.split(key).next().unwrap(), b.split(key).nth(1).unwrap());
    let config = authority.site("\"a.test\"", "x.pem", "");
    for (text, mode, why) in [
        (a.clone(), 0o644, "open to all users (mode 0644)"),
        (of_a.to_owned(), 0o600, "holds no private key"),
        (format!("{of_a}{key}{of_b}"), 0o600, "does not belong to the certificate"),
        (b[b.find(key).unwrap()..].to_owned(), 0o600, "holds no certificate"),
    ] {
        authority.write("x.pem", &text, mode);
        let refused = authority.launch(&config).expect_err(why);
        let errors = &refused.errors;
        assert!(errors.contains(why) && errors.contains("x.pem"), "{why}:\n{errors}");
        assert!(errors.contains("flyball.toml:4: site.certificate: "), "{errors}");
    }
    authority.write("x.pem", &a, 0o640);
    let server = authority.start(&config);
    assert!(server.errors().contains("open to its group (mode 0640)"), "{}", server.errors());
}

#[test]
fn a_site_without_a_certificate_says_so() {
    let authority = Authority::new();
    let root = authority.path("root");
    let site = format!("[[site]]\nroot = {root:?}\n");
    let missing = authority.launch(&site).expect_err("no certificate");
    assert!(missing.errors.contains("site.certificate: is missing"), "{}", missing.errors);
    let by_acme = format!("[acme]\n{site}certificate = \"acme\"\n");
    let acme = authority.launch(&by_acme).expect_err("acme");
    assert!(acme.errors.contains("needs the names of the site"), "{}", acme.errors);
    authority.issue("a.pem", &["a.test"]);
    let both = site + "certificate = \"none\"\n" + &authority.site("\"a.test\"", "a.pem", "");
    let server = authority.start(&both);
    assert_eq!(authority.curl(&server, "a.test", &[]).0, "over TLS\n200");
    // The site of all other hosts is not served by TLS.
    let other = authority.curl(&server, "a.test", &["-H", "Host: other.test"]).0;
    assert!(other.ends_with("421"), "{other}");
    assert!(other.contains("This name is not served by https."), "{other}");
}

#[test]
fn a_renewed_certificate_is_in_use_without_a_reload_and_a_wrong_one_changes_nothing() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    for arch in ["n-copy", "mp", "mt", "shared-symped", "uring"] {
        let config =
            format!("arch = \"{arch}\"\n{WATCH}{}", authority.site("\"a.test\"", "a.pem", ""));
        let server = match authority.launch(&config) {
            Err(refused) if refused.is_unavailable() => continue,
            started => started.expect("it starts"),
        };
        let shows = |file: &str| {
            let shown = authority.openssl(&server, "a.test", &[]);
            authority.is_in(file, &shown).then_some(())
        };
        assert!(shows("a.pem").is_some(), "{arch}");
        fs::copy(authority.path("a.pem"), authority.path("before.pem")).unwrap();
        authority.write("a.pem", "no certificate", 0o600);
        let told = || server.errors().contains("the certificate in use stays: ").then_some(());
        assert!(until(AT_MOST, told).is_some(), "{arch}:\n{}", server.errors());
        assert!(shows("before.pem").is_some(), "{arch}");
        authority.issue("a.pem", &["a.test"]);
        assert!(until(AT_MOST, || shows("a.pem")).is_some(), "{arch}:\n{}", server.errors());
        assert_eq!(server.errors().matches("the certificate in use stays").count(), 1, "{arch}");
        assert!(!server.errors().contains("the configuration is loaded"));
        server.assert_sound();
    }
}

#[test]
fn a_reload_keeps_a_certificate_that_holds_from_one_that_does_not() {
    let authority = Authority::new();
    for watch in ["watch = \"100ms\"", "watch = \"off\""] {
        authority.issue("a.pem", &["a.test"]);
        fs::copy(authority.path("a.pem"), authority.path("before.pem")).unwrap();
        let config = format!(
            "admin = \"127.0.0.1:0\"\n[tls]\n{watch}\n{}",
            authority.site("\"a.test\"", "a.pem", "")
        );
        let server = authority.start(&config);
        let shows = |file: &str| {
            let shown = authority.openssl(&server, "a.test", &[]);
            authority.is_in(file, &shown)
        };
        for (from, until, why) in [
            (2019, 2020, "holds a certificate that expired "),
            (3000, 3001, "holds a certificate that clients refuse as yet: it begins in "),
        ] {
            authority.issue_by("a.pem", &["a.test"], |params| {
                params.not_before = date_time_ymd(from, 1, 1);
                params.not_after = date_time_ymd(until, 1, 1);
            });
            // Twice: what one reload kept is kept by the next.
            for _ in 0..2 {
                server.reload();
                assert!(shows("before.pem"), "{watch} {why}:\n{}", server.errors());
                let told = format!("a.pem {why}");
                assert!(server.status().contains(&told), "{watch} {why}: {}", server.status());
                let errors = server.errors();
                let warned = errors.rsplit("the configuration is loaded").nth(1).unwrap();
                let stays = "the certificate in use stays: ";
                assert!(warned.contains(stays) && warned.contains(&told), "{watch}:\n{errors}");
            }
        }
        authority.issue("a.pem", &["a.test"]);
        server.reload();
        assert!(shows("a.pem"), "{watch}:\n{}", server.errors());
        assert!(!server.status().contains("stays"), "{watch}: {}", server.status());
        server.assert_sound();
    }
}

/// Until then no handshake succeeds, and who was led there would see nothing.
#[test]
fn requests_in_the_clear_are_led_to_https_once_the_first_certificate_is_there() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let (root, storage) = (authority.path("root"), authority.path("storage"));
    let users = authority.path("users");
    fs::write(&users, "bea:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n").unwrap();
    let site = |host: &str| {
        format!("[[site]]\nhosts = [{host:?}]\nroot = {root:?}\ncertificate = \"acme\"\n")
    };
    let config = format!(
        "{}{WATCH}[acme]\ndirectory = \"https://127.0.0.1:1/dir\"\nstorage = {storage:?}\n\
         {}{}auth.file = {users:?}\n",
        flyball_testkit::as_ourselves(),
        site("a.test"),
        site("closed.test")
    );
    let server = authority.start(&config);
    let status_of = |host: &str| {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        server.connect().ask(request).status()
    };
    let status = || status_of("a.test");
    assert_eq!(status(), 200);
    // No password is asked for in the clear.
    assert_eq!(status_of("closed.test"), 308);
    let pair = authority.path("a.pem");
    let import = || {
        let mut import = Command::new(binary());
        import.args(["cert", "import", "a.test", "--storage"]).arg(&storage);
        let output = import.arg("--chain").arg(&pair).arg("--key").arg(&pair).output().unwrap();
        // Where the agent is about to order one, another try succeeds.
        output.status.success().then_some(())
    };
    assert!(until(AT_MOST, import).is_some());
    let is_led = || (status() == 308).then_some(());
    assert!(until(AT_MOST, is_led).is_some(), "{}", server.errors());
    assert_eq!(authority.curl(&server, "a.test", &[]).0, "over TLS\n200");
    server.assert_sound();
}

#[test]
fn sessions_are_resumed_by_every_worker_and_after_a_reload() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let site = authority.site("\"a.test\"", "a.pem", "");
    let session = authority.path("session").display().to_string();
    for arch in ["mp", "n-copy", "symped"] {
        let config = format!("arch = \"{arch}\"\nworkers = 4\n{site}");
        let server = authority.start(&config);
        for version in ["-tls1_3", "-tls1_2"] {
            let first = authority.openssl(&server, "a.test", &[version, "-sess_out", &session]);
            assert!(first.contains("\nNew, TLSv1."), "{arch}:\n{first}");
            let resumed = || {
                let said = authority.openssl(&server, "a.test", &[version, "-sess_in", &session]);
                assert!(said.contains("\nReused, TLSv1."), "{arch} {version}:\n{said}");
            };
            (0..8).for_each(|_| resumed());
            server.reload();
            resumed();
        }
        server.assert_sound();
    }
}
