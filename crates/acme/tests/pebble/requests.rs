//! What an operator has asked for is done, also where the agent that was told has ended.

use std::fs;
use std::path::Path;
use std::process::Command;

use flyball_acme::messages::ToAgent;
use flyball_testkit::free_address;
use flyball_testkit::wait::{DEADLINE, until};
use serde_json::{Value, json};

use crate::agent::{Agent, configuration};
use crate::authority::{self, Ways, directory_at};
use crate::responder::Responder;

/// The serial number of a certificate in a file, in hexadecimal digits.
pub(crate) fn serial(path: &Path) -> String {
    let told =
        Command::new("openssl").args(["x509", "-noout", "-serial", "-in"]).arg(path).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    told.trim().trim_start_matches("serial=").to_owned()
}

/// What the storage has of requests that are not done.
pub(crate) fn open_requests(storage: &Path) -> Vec<Value> {
    let Ok(files) = fs::read_dir(storage.join("asked")) else { return Vec::new() };
    let read = |path: &Path| serde_json::from_slice(&fs::read(path).ok()?).ok();
    let all = files.filter_map(|file| read(&file.ok()?.path()));
    all.filter(|asked: &Value| asked["revocations"] != json!([]) || !asked["other_than"].is_null())
        .collect()
}

fn renew(name: &str) -> ToAgent {
    ToAgent::Renew { name: name.into() }
}

fn revoke(name: &str) -> ToAgent {
    ToAgent::Revoke { name: name.into() }
}

/// An agent whose authority is away is told, and killed: the next one reaches the authority.
#[test]
fn what_an_agent_was_told_and_did_not_do_the_next_one_does_once() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let names: &[&[&str]] = &[&["a.test"], &["b.test"]];
    let right = configuration(&authority, storage.path(), names);
    let agent = Agent::start(&responder, &right);
    let (mut paths, mut serials) = (Vec::new(), Vec::new());
    for _ in names {
        paths.push(agent.certificate());
    }
    serials.extend(paths.iter().map(|path| serial(path)));
    assert_eq!(agent.leave(), Some(0));
    let mut away = right.clone();
    away["authorities"][0]["directory"] = json!(directory_at(free_address()));
    let mut agent = Agent::start(&responder, &away);
    for message in [revoke("A.test."), renew("b.test")] {
        agent.tell(&message);
        agent.has_noted();
    }
    agent.kill();
    assert_eq!(open_requests(storage.path()).len(), 2);
    for _ in 0..2 {
        let agent = Agent::start(&responder, &right);
        let before = agent.asked_before();
        assert!(before.0.is_some() != before.1.is_some(), "{before:?}");
        let is_done = || open_requests(storage.path()).is_empty().then_some(());
        assert!(until(DEADLINE, is_done).is_some(), "{:?}", open_requests(storage.path()));
        assert_eq!(agent.leave(), Some(0));
        assert_eq!(authority.issued(), 4);
    }
    let revoked = serials.iter().map(|serial| authority.has_revoked(serial));
    assert!(paths.iter().zip(&serials).all(|(path, old)| serial(path) != *old));
    assert_eq!(
        revoked.collect::<Vec<_>>(),
        [paths[0].ends_with("a.test.pem"), paths[1].ends_with("a.test.pem")]
    );
    assert_eq!(authority.log_count("/revoke-cert -> calling handler()"), 1);
}

/// It is the one that was there when it was asked for, and not what was ordered meanwhile.
#[test]
fn the_certificate_is_revoked_that_was_there_and_its_renewal_is_left_to_a_server_that_has_it() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let right = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start(&responder, &right);
    let path = agent.certificate();
    let first = serial(&path);
    assert_eq!(agent.leave(), Some(0));
    let mut away = right.clone();
    away["authorities"][0]["directory"] = json!(directory_at(free_address()));
    let mut agent = Agent::start(&responder, &away);
    agent.tell(&revoke("a.test"));
    agent.has_noted();
    agent.kill();
    let other = tempfile::tempdir().unwrap();
    let elsewhere = configuration(&authority, other.path(), &[&["a.test"]]);
    let newer = Agent::start(&responder, &elsewhere).certificate();
    fs::copy(&newer, &path).unwrap();
    let mut agent = Agent::start(&responder, &away);
    agent.tell(&renew("a.test"));
    agent.has_noted();
    agent.kill();
    // One that was asked for long ago is waited for no more.
    let long_ago = json!({"revocations": [], "other_than": "", "renewal_at": 1});
    fs::write(storage.path().join("asked/c.test.json"), long_ago.to_string()).unwrap();
    let mut elsewhere = right.clone();
    elsewhere["certificates"] = json!([["b.test"]]);
    let agent = Agent::start(&responder, &elsewhere);
    agent.certificate();
    let newer = serial(&newer);
    let is_newer = |serial: &str| serial.eq_ignore_ascii_case(&newer);
    let is_left = || {
        let open = open_requests(storage.path());
        let is_left = open.len() == 1 && open[0]["revocations"] == json!([]);
        let is_of_newer = |asked: &Value| asked["other_than"].as_str().is_some_and(is_newer);
        (is_left && open.iter().all(is_of_newer)).then_some(())
    };
    assert!(until(DEADLINE, is_left).is_some(), "{:?}", open_requests(storage.path()));
    assert_eq!((authority.has_revoked(&first), authority.has_revoked(&newer)), (true, false));
    assert_eq!(serial(&path), newer);
    assert_eq!(authority.issued(), 3);
    let _agent = Agent::start(&responder, &right);
    let is_done = || open_requests(storage.path()).is_empty().then_some(());
    assert!(until(DEADLINE, is_done).is_some(), "{:?}", open_requests(storage.path()));
    assert_ne!(serial(&path), newer);
    assert_eq!(authority.issued(), 4);
}

#[test]
fn of_two_servers_that_are_asked_the_same_at_the_same_moment_one_orders_another() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let agents = ["b.test", "c.test"].map(|own| {
        let right = configuration(&authority, storage.path(), &[&["a.test"], &[own]]);
        let agent = Agent::start(&responder, &right);
        (0..2).for_each(|_| drop(agent.certificate()));
        (agent, own)
    });
    let at = |name: &str| storage.path().join(format!("certificates/{name}.pem"));
    let mut issued = 3;
    for message in [renew("a.test"), revoke("a.test")] {
        let old = serial(&at("a.test"));
        agents.iter().for_each(|(agent, _)| agent.tell(&message));
        agents.iter().for_each(|(agent, _)| agent.has_noted());
        // An agent that comes to its other one has done what it would do for the first.
        for (agent, own) in &agents {
            agent.tell(&renew(own));
            while agent.certificate() != at(own) {}
        }
        issued += 3;
        let is_done = || open_requests(storage.path()).is_empty();
        let is_done = || (is_done() && authority.issued() >= issued).then_some(());
        assert!(until(DEADLINE, is_done).is_some(), "{}", authority.issued());
        assert_eq!(authority.issued(), issued);
        assert_ne!(serial(&at("a.test")), old);
    }
}
