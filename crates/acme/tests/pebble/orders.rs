//! Orders that succeed, by each challenge and with each extension.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use flyball_acme::messages::ToAgent;
use flyball_testkit::pebble::Authority;
use serde_json::json;

use crate::agent::{Agent, configuration};
use crate::authority::{self, EXTERNAL, Ways};
use crate::responder::Responder;

/// A responder, an authority that asks it, and an empty storage; nothing where Pebble is missing.
fn setting(ways: Ways) -> Option<(Responder, Authority, tempfile::TempDir)> {
    let responder = Responder::start();
    let authority = authority::start(&responder, ways)?;
    Some((responder, authority, tempfile::tempdir().unwrap()))
}

/// What `openssl x509 -text` says of the certificate in a file.
fn shown(path: &Path) -> String {
    let done = Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(path).output();
    String::from_utf8(done.unwrap().stdout).unwrap()
}

/// All files below a directory, with their modes.
fn modes(directory: &Path, found: &mut Vec<(String, u32)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        found.push((path.display().to_string(), mode));
        if path.is_dir() {
            modes(&path, found);
        }
    }
}

#[test]
fn a_certificate_comes_by_http_01_and_is_ordered_once() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    let storage = storage.path().join("storage");
    let mut configuration = configuration(&authority, &storage, &[&["a.test", "b.test"]]);
    configuration["email"] = json!("admin@a.test");
    let agent = Agent::start(&responder, &configuration);
    let path = agent.certificate();
    let text = shown(&path);
    assert!(text.contains("DNS:a.test") && text.contains("DNS:b.test"), "{text}");
    let status = agent.status(|status| status.not_after.is_some());
    assert!(status.issuer.contains("Pebble") && status.error.is_none(), "{status:?}");
    assert_eq!(responder.standing(), 0, "challenges are cleared");
    let mut found = Vec::new();
    modes(&storage, &mut found);
    for (path, mode) in &found {
        assert_eq!(*mode, if Path::new(path).is_dir() { 0o700 } else { 0o600 }, "{path}");
    }
    assert!(found.len() >= 7, "{found:?}");
    assert_eq!(agent.leave(), Some(0));
    // The same again: what is there is told, and nothing is ordered.
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), path);
    agent.status(|status| status.renews_at.is_some());
    assert_eq!(authority.issued(), 1);
}

#[test]
fn a_certificate_comes_by_tls_alpn_01() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    configuration["challenges"] = json!(["tls-alpn-01"]);
    let agent = Agent::start(&responder, &configuration);
    assert!(shown(&agent.certificate()).contains("DNS:a.test"));
}

#[test]
fn a_wildcard_comes_by_a_command_that_sets_records() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    let names: &[&[&str]] = &[&["a.test", "*.a.test"]];
    let mut configuration = configuration(&authority, storage.path(), names);
    configuration["challenges"] = json!(["dns-01"]);
    configuration["dns-hook"] = json!(["sh", authority.hook()]);
    let agent = Agent::start(&responder, &configuration);
    let text = shown(&agent.certificate());
    assert!(text.contains("DNS:a.test") && text.contains("DNS:*.a.test"), "{text}");
    let calls = authority.hook_calls();
    let called = |how: &str| calls.matches(how).count();
    assert_eq!(called("set _acme-challenge.a.test "), 2, "{calls}");
    assert_eq!(called("clear _acme-challenge.a.test "), 2, "{calls}");
}

#[test]
fn an_account_is_bound_to_an_external_one() {
    let ways = Ways { wants_external: true, ..Ways::default() };
    let Some((responder, authority, storage)) = setting(ways) else { return };
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    configuration["authorities"][0]["external"] = json!({"id": EXTERNAL.0, "key": EXTERNAL.1});
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    assert_eq!(authority.log_count("Successful newAccount Binding"), 1);
}

#[test]
fn an_address_has_a_certificate_of_six_days() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    for challenge in ["http-01", "tls-alpn-01"] {
        let storage = storage.path().join(challenge);
        let mut configuration = configuration(&authority, &storage, &[&["127.0.0.1"]]);
        configuration["challenges"] = json!([challenge]);
        configuration["authorities"][0]["profile"] = json!("shortlived");
        let agent = Agent::start(&responder, &configuration);
        assert!(shown(&agent.certificate()).contains("IP Address:127.0.0.1"));
        let status = agent.status(|status| status.renews_at.is_some());
        let lifetime = status.not_after.unwrap() - status.not_before.unwrap();
        assert!(lifetime.abs_diff(518_400) <= 1, "{status:?}");
        assert!(status.renews_at < status.not_after, "{status:?}");
    }
}

#[test]
fn half_of_the_nonces_may_be_refused() {
    let ways = Ways { refuses_nonces: 50, ..Ways::default() };
    let Some((responder, authority, storage)) = setting(ways) else { return };
    let configuration = configuration(&authority, storage.path(), &[&["a.test"], &["b.test"]]);
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    agent.certificate();
    assert_eq!(authority.issued(), 2);
}

#[test]
fn a_name_that_was_shown_to_be_ours_needs_no_challenge() {
    let ways = Ways { remembers: true, ..Ways::default() };
    let Some((responder, authority, storage)) = setting(ways) else { return };
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    let asked = || authority.log_count("/chalZ/ -> calling handler()");
    let before = asked();
    assert!(before > 0);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    agent.certificate();
    assert_eq!((asked(), authority.issued()), (before, 2));
}

#[test]
fn a_certificate_is_renewed_when_its_authority_advises_it() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start(&responder, &configuration);
    let path = agent.certificate();
    let first = fs::read_to_string(&path).unwrap();
    assert_eq!(agent.leave(), Some(0));
    let certificate = &first[first.find("-----BEGIN CERTIFICATE").unwrap()..];
    authority.advise(certificate, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), path, "the old one is told first");
    assert_eq!(agent.certificate(), path);
    assert_ne!(fs::read_to_string(&path).unwrap(), first);
    assert_eq!(authority.log_count("is a replacement of"), 1);
}

#[test]
fn an_operator_renews_and_revokes() {
    let Some((responder, authority, storage)) = setting(Ways::default()) else { return };
    let configuration = configuration(&authority, storage.path(), &[&["a.test", "b.test"]]);
    let agent = Agent::start(&responder, &configuration);
    let path = agent.certificate();
    agent.tell(&ToAgent::Renew { name: "b.test".into() });
    agent.certificate();
    let renewed = fs::read_to_string(&path).unwrap();
    agent.tell(&ToAgent::Revoke { name: "a.test".into() });
    agent.certificate();
    assert_ne!(fs::read_to_string(&path).unwrap(), renewed);
    assert_eq!(authority.issued(), 3);
    assert_eq!(authority.log_count("/revoke-cert -> calling handler()"), 1);
}
