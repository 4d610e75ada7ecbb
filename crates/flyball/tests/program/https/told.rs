//! What operators are told of certificates that are not as they should be: at the start, by
//! `flyball check`, and when files change while the server runs.

use std::fs;
use std::process::Command;
use std::time::Duration;

use flyball_testkit::Server;
use flyball_testkit::wait::until;
use rcgen::date_time_ymd;

use crate::common::https::Authority;

/// A look at the certificates comes ten times in a second.
const WATCH: &str = "[tls]\nwatch = \"100ms\"\n";

const AT_MOST: Duration = Duration::from_secs(60);

/// A site with a chain and a key apart.
fn apart(authority: &Authority, chain: &str, key: &str) -> String {
    let [root, chain, key] = ["root", chain, key].map(|name| authority.path(name));
    format!(
        "[[site]]\nhosts = [\"a.test\"]\nroot = {root:?}\n\
         [[site.certificates]]\nchain = {chain:?}\nkey = {key:?}\n"
    )
}

#[track_caller]
fn wait_for(server: &Server, what: &str) {
    let told = until(AT_MOST, || server.errors().contains(what).then_some(()));
    assert!(told.is_some(), "{what}\n{}", server.errors());
}

/// What openssl writes.
fn openssl(authority: &Authority, file: &str, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    authority.write(file, &String::from_utf8(output.stdout).unwrap(), 0o600);
}

#[test]
fn a_key_that_cannot_be_used_is_told_with_what_to_make_instead() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let rsa = ["genrsa", "-traditional", "1024"];
    openssl(&authority, "rsa.pem", &rsa);
    openssl(
        &authority,
        "rsa8.pem",
        &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"],
    );
    openssl(&authority, "ed448.pem", &["genpkey", "-algorithm", "ED448"]);
    openssl(&authority, "k1.pem", &["ecparam", "-name", "secp256k1", "-genkey", "-noout"]);
    openssl(&authority, "dsa.param", &["dsaparam", "1024"]);
    let parameters = authority.path("dsa.param").display().to_string();
    openssl(&authority, "dsa8.pem", &["gendsa", &parameters]);
    let dsa8 = authority.path("dsa8.pem").display().to_string();
    openssl(&authority, "dsa.pem", &["dsa", "-in", &dsa8]);
    for (key, told) in [
        ("rsa.pem", "it is one of RSA with 1024 bits, which is too short"),
        ("rsa8.pem", "it is one of RSA with 1024 bits, which is too short"),
        ("ed448.pem", "it is one of Ed448, which is not known here"),
        ("k1.pem", "it is one of ECDSA on secp256k1, which is not known here"),
        ("dsa8.pem", "it is one of DSA, which is not known here"),
        ("dsa.pem", "it is one of DSA, which is not known here"),
    ] {
        let refused = authority.launch(&apart(&authority, "a.pem", key)).expect_err(key).errors;
        let path = format!("{} holds a key that cannot be used: ", authority.path(key).display());
        assert!(refused.contains(&(path + told)), "{key}:\n{refused}");
        assert!(refused.contains("; make one of ECDSA on P-256 (openssl genpkey "), "{refused}");
    }
}

#[test]
fn a_chain_and_a_key_that_are_swapped_are_told_so() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let both = fs::read_to_string(authority.path("a.pem")).unwrap();
    let (chain, key) = both.split_at(both.find("-----BEGIN PRIVATE KEY").unwrap());
    // A certificate may be read by all.
    authority.write("chain.pem", chain, 0o644);
    authority.write("key.pem", key, 0o600);
    let swapped = apart(&authority, "key.pem", "chain.pem");
    let refused = authority.launch(&swapped).expect_err("they are swapped").errors;
    assert!(refused.contains("key.pem holds a key, and what is given as the key holds a certific"));
    assert!(refused.contains(": site.certificates: ") && !refused.contains("chmod"), "{refused}");
    authority.start(&apart(&authority, "chain.pem", "key.pem")).assert_sound();
}

#[test]
fn a_certificate_that_names_no_host_of_its_site_and_one_that_ends_soon_are_warned_of() {
    let authority = Authority::new();
    authority.issue("a.pem", &["b.test", "c.test"]);
    authority.issue("some.pem", &["x.test"]);
    authority.issue("all.pem", &["*.all.test", "127.0.0.1"]);
    let days = |file: &str, name: &str, days: u64| {
        authority.issue_by(file, &[name], |params| {
            params.not_before = date_time_ymd(2024, 1, 1);
            params.not_after = std::time::SystemTime::now().into();
            params.not_after += Duration::from_secs(days * 86_400 + 3_600);
        });
    };
    days("soon.pem", "soon.test", 5);
    days("later.pem", "later.test", 15);
    let config = authority.site("\"a.test\", \"www.a.test\"", "a.pem", "")
        + &authority.site("\"x.test\", \"www.x.test\"", "some.pem", "")
        + &authority.site("\"y.all.test\", \"127.0.0.1\"", "all.pem", "")
        + &authority.site("\"*\"", "all.pem", "")
        + &authority.site("\"soon.test\"", "soon.pem", "")
        + &authority.site("\"later.test\"", "later.pem", "");
    let warnings = [
        "a.pem holds a certificate for b.test, c.test, which names no host of its site (a.test, \
         www.a.test): ",
        "site x.test: no certificate of the site names www.x.test: ",
        "soon.pem holds a certificate that expires in 5 days, and the server does not renew it",
    ];
    let server = authority.start(&config);
    let (told, checked) = (server.errors(), authority.check(&config).1);
    for text in [told, checked] {
        for warning in warnings {
            assert_eq!(text.matches(warning).count(), 1, "{warning}\n{text}");
        }
        for fine in ["all.pem", "later.pem"] {
            assert!(!text.contains(fine), "{fine}\n{text}");
        }
    }
    server.assert_sound();
}

#[test]
fn an_authority_that_is_none_and_a_list_of_another_are_warned_of() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    authority.issue_by("client.pem", &["someone"], |params| {
        params.distinguished_name.push(rcgen::DnType::CommonName, "someone");
    });
    let other = Authority::named("another authority");
    other.revoke("crl.pem", &[], 4000);
    let ca = fs::read_to_string(authority.path("ca.pem")).unwrap();
    let client = fs::read_to_string(authority.path("client.pem")).unwrap();
    authority.write("clients.pem", &(ca + &client), 0o600);
    let (clients, crl) = (authority.path("clients.pem"), other.path("crl.pem"));
    let lines = format!("tls.client-ca = {clients:?}\ntls.client-crl = {crl:?}");
    let server = authority.start(&authority.site("\"a.test\"", "a.pem", &lines));
    let errors = server.errors();
    for told in [
        "clients.pem holds the certificate of CN=someone, which is no authority: ",
        "such as CN=the authority of a test, who has issued this one",
        "crl.pem holds a list of CN=another authority, which is no authority of ",
    ] {
        assert_eq!(errors.matches(told).count(), 1, "{told}\n{errors}");
    }
    server.assert_sound();
}

#[test]
fn a_renewal_that_names_fewer_hosts_is_used_and_warned_of() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test", "www.a.test", "b.test"]);
    // One certificate of two sites.
    let config = authority.site("\"a.test\", \"www.a.test\"", "a.pem", "")
        + &authority.site("\"b.test\"", "a.pem", "");
    let server = authority.start(&format!("{WATCH}{config}"));
    authority.issue("a.pem", &["a.test", "other.test"]);
    wait_for(&server, "a.pem is in use");
    let lost = "a.pem holds a certificate that does not name www.a.test, b.test any more, as the \
                one before did";
    wait_for(&server, lost);
    let shown = authority.openssl(&server, "b.test", &[]);
    assert!(authority.is_in("a.pem", &shown), "{shown}");
    authority.issue("a.pem", &["a.test"]);
    let used = || (server.errors().matches("a.pem is in use").count() == 2).then_some(());
    assert!(until(AT_MOST, used).is_some(), "{}", server.errors());
    assert_eq!(server.errors().matches("any more, as the one before did").count(), 1);
    server.assert_sound();
}

#[test]
fn a_key_that_stays_away_is_told_once_and_what_comes_back_is_used() {
    let authority = Authority::new();
    authority.issue("a.pem", &["a.test"]);
    let both = fs::read_to_string(authority.path("a.pem")).unwrap();
    authority.write("key.pem", &both, 0o600);
    let config =
        format!("admin = \"127.0.0.1:0\"\n{WATCH}{}", apart(&authority, "a.pem", "key.pem"));
    let server = authority.start(&config);
    fs::rename(authority.path("key.pem"), authority.path("away.pem")).unwrap();
    let gone = "the certificate in use stays: ";
    wait_for(&server, gone);
    assert!(
        server.errors().contains("key.pem cannot be read: No such file"),
        "{}",
        server.errors()
    );
    let error = || server.status().contains("key.pem cannot be read").then_some(());
    assert!(until(AT_MOST, error).is_some(), "{}", server.status());
    assert_eq!(authority.curl(&server, "a.test", &[]).0, "over TLS\n200");
    fs::rename(authority.path("away.pem"), authority.path("key.pem")).unwrap();
    wait_for(&server, "a.pem is in use");
    let mended = || (!server.status().contains("key.pem cannot be read")).then_some(());
    assert!(until(AT_MOST, mended).is_some(), "{}", server.status());
    assert_eq!(server.errors().matches(gone).count(), 1, "{}", server.errors());
    server.assert_sound();
}
