//! Certificates as operators see them: `flyball check`, `explain`, `top`, `/status`, `/metrics`.

use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Output};

use flyball_testkit::{Client, binary};
use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, SerialNumber};
use serde_json::Value;

use crate::common::https::Authority;

/// A site with two certificates, of RSA and of ECDSA, which have one number.
fn both(authority: &Authority) -> String {
    for (file, kind) in [("rsa.pem", &PKCS_RSA_SHA256), ("ecdsa.pem", &PKCS_ECDSA_P256_SHA256)] {
        authority.issue_kind(file, &["a.test", "www.a.test"], kind, |params| {
            params.serial_number = Some(SerialNumber::from(0x1f));
        });
    }
    let [root, rsa, ecdsa] = ["root", "rsa.pem", "ecdsa.pem"].map(|name| authority.path(name));
    format!(
        "admin = \"127.0.0.1:0\"\n[[site]]\nhosts = [\"a.test\", \"www.a.test\"]\nroot = {root:?}\n\
         [[site.certificates]]\nchain = {rsa:?}\nkey = {rsa:?}\n\
         [[site.certificates]]\nchain = {ecdsa:?}\nkey = {ecdsa:?}\n"
    )
}

fn explain(config: &Path, more: &[&str]) -> String {
    let mut explain = Command::new(binary());
    let explain = explain.arg("explain").arg("--config").arg(config);
    let Output { status, stdout, stderr } = explain.args(more).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

#[test]
fn check_and_explain_tell_the_certificates_that_status_tells() {
    let authority = Authority::new();
    let config = both(&authority);
    let (checked, _) = authority.check(&config);
    let line =
        |kind: &str| format!("a.test, www.a.test: {kind} by CN=the authority of a test, until ");
    for kind in ["RSA", "ECDSA"] {
        let line = format!("\ncertificate {}", line(kind));
        assert_eq!(checked.matches(&line).count(), 1, "{line}\n{checked}");
    }
    assert!(checked.contains(" days left"), "{checked}");
    let path = authority.path("checked.toml");
    let text = explain(&path, &[]);
    let (_, certificates) = text.split_once("\ncertificates\n").expect("they are told");
    assert!(certificates.contains(&line("RSA")) && certificates.contains(&line("ECDSA")));
    assert!(!explain(&path, &["workers"]).contains("certificates"));
    let told: Value = serde_json::from_str(&explain(&path, &["--json", "site"])).unwrap();
    let server = authority.start(&config);
    let mut status: Value = serde_json::from_str(&server.status()).unwrap();
    let mut told = told["certificates"].clone();
    for one in [&mut told, &mut status["certificates"]] {
        one.as_array_mut().unwrap().iter_mut().for_each(|one| one["holds_s"] = Value::Null);
    }
    assert_eq!(told.as_array().map(Vec::len), Some(2), "{told:#}");
    assert_eq!(told, status["certificates"]);
    server.assert_sound();
}

#[test]
fn a_key_of_the_superuser_does_not_keep_the_settings_from_being_explained() {
    let authority = Authority::new();
    let config = both(&authority);
    authority.check(&config);
    std::fs::remove_file(authority.path("rsa.pem")).unwrap();
    let text = explain(&authority.path("checked.toml"), &[]);
    let (settings, certificates) = text.split_once("\ncertificates\n").expect("they are told");
    assert!(settings.contains("workers") && certificates.contains("rsa.pem cannot be read"));
}

#[test]
fn no_sample_of_the_metrics_is_there_twice() {
    let authority = Authority::new();
    let other = Authority::named("another authority");
    let config = both(&authority);
    // Another authority counts alike.
    other.issue_by("other.pem", &["a.test"], |params| {
        params.serial_number = Some(SerialNumber::from(0x1f));
    });
    let path = other.path("other.pem");
    let more = format!("[[site.certificates]]\nchain = {path:?}\nkey = {path:?}\n");
    let server = authority.start(&(config + &more));
    let metrics =
        Client::connect(server.admin()).ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let samples = metrics.text().lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = samples.filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let ready = names.iter().filter(|name| name.starts_with("flyball_certificate_ready{")).count();
    assert_eq!(ready, 3, "{names:?}");
    let mut seen = HashSet::new();
    for name in names {
        assert!(seen.insert(name), "{name} is there twice");
    }
    server.assert_sound();
}

#[test]
fn top_tells_handshakes_certificates_and_which_addresses_speak_tls() {
    let authority = Authority::new();
    let server = authority.start(&both(&authority));
    assert_eq!(authority.curl(&server, "a.test", &[]).0, "over TLS\n200");
    let secure = format!("https://{}", server.secure());
    let top = |more: &[&str]| {
        let admin = server.admin().to_string();
        let output = Command::new(binary())
            .args(["top", "--admin", &admin, "--every", "0.2", "--once"])
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = top(&[]);
    assert!(text.contains(&secure) && text.contains("\nhandshake/s "), "{text}");
    assert!(text.contains("\ncertificate 2 of 2 hold  a.test ends in "), "{text}");
    assert!(text.contains("\na.test www.a.test\n  RSA by CN=the authority of a test, until "));
    let told: Value = serde_json::from_str(&top(&["--json"])).unwrap();
    assert!(told["handshakes"].is_number() && told["handshakes_failed"].is_number(), "{told:#}");
    assert_eq!(told["certificates"][0]["name"], "a.test", "{told:#}");
    server.assert_sound();
}
