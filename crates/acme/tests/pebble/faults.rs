//! Orders where something fails: the authority, the challenge, the disk, another agent.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use flyball_acme::messages::ToAgent;
use flyball_testkit::free_address;
use flyball_testkit::wait::{DEADLINE, until};
use serde_json::{Value, json};

use crate::agent::{Agent, configuration};
use crate::authority::{self, Ways, directory_at};
use crate::responder::Responder;

/// How often an order was refused, as the storage has it: long ago, so that the next try is due.
fn refused(storage: &Path, name: &str) {
    let failures = json!({
        "count": 1, "first": 1_000, "last": 1_000, "not_before": 0, "is_refused": true,
    });
    fs::create_dir_all(storage.join("failures")).unwrap();
    fs::write(storage.join(format!("failures/{name}.json")), failures.to_string()).unwrap();
}

#[test]
fn without_its_authority_an_agent_tells_what_is_there_and_orders_later() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start(&responder, &configuration);
    let path = agent.certificate();
    assert_eq!(agent.leave(), Some(0));
    // It is told at once; a second certificate has to wait.
    let mut both = configuration;
    let roots = storage.path().join("roots.pem");
    fs::copy(authority.roots(), &roots).unwrap();
    both["authorities"][0]["roots"] = json!(roots);
    let at = authority.at;
    drop(authority);
    both["certificates"] = json!([["b.test"], ["a.test"]]);
    let agent = Agent::start(&responder, &both);
    assert_eq!(agent.certificate(), path);
    let status = agent.status(|status| status.failures == 1);
    assert!(status.error.unwrap().contains("/dir"), "the authority is named");
    let ways = Ways { at: Some(at), ..Ways::default() };
    let Some(authority) = authority::start(&responder, ways) else { return };
    both["authorities"][0]["roots"] = json!(authority.roots());
    assert_eq!(agent.leave(), Some(0));
    let agent = Agent::start(&responder, &both);
    // What is there is told by each agent. The authority has lost the account.
    while !agent.certificate().ends_with("b.test.pem") {
        agent.tell(&ToAgent::Renew { name: "b.test".into() });
    }
    assert_eq!(authority.issued(), 1);
}

#[test]
fn where_one_authority_is_away_the_next_is_asked() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let away = json!({"directory": directory_at(free_address()), "roots": authority.roots()});
    configuration["authorities"].as_array_mut().unwrap().insert(0, away);
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    assert_eq!(authority.issued(), 1);
}

#[test]
fn a_challenge_that_cannot_be_seen_is_followed_by_the_other() {
    let responder = Responder::start();
    // Of two ports only that for HTTP answers.
    let mut half = responder;
    half.tls = free_address();
    let Some(authority) = authority::start(&half, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    configuration["challenges"] = json!(["tls-alpn-01", "http-01"]);
    let agent = Agent::start(&half, &configuration);
    agent.certificate();
    assert_eq!(authority.issued(), 1);
}

#[test]
fn an_order_that_was_refused_is_rehearsed_at_staging() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let Some(staging) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let both = storage.path().join("roots.pem");
    let roots = [authority.roots(), staging.roots()].map(|path| fs::read_to_string(path).unwrap());
    fs::write(&both, roots.concat()).unwrap();
    configuration["authorities"][0]["staging"] = json!(staging.url());
    configuration["authorities"][0]["roots"] = json!(both);
    // As long as staging refuses it, the authority is not asked.
    refused(storage.path(), "a.test");
    let other = Responder::start();
    let agent = Agent::start(&other, &configuration);
    let status = agent.status(|status| status.failures == 2);
    assert!(status.error.unwrap().contains("a.test"), "the reason is told");
    assert_eq!(authority.log_count("/order-plz -> calling handler()"), 0);
    assert_eq!(agent.leave(), Some(0));
    refused(storage.path(), "a.test");
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    assert_eq!((staging.issued(), authority.issued()), (1, 1));
    // That it has worked is known to the next one.
    let left: Vec<_> = fs::read_dir(storage.path().join("failures")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let left: Vec<_> = fs::read_dir(storage.path().join("orders")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn on_a_full_disk_nothing_is_ordered() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start_with_room(0, &responder, &configuration);
    let status = agent.status(|status| status.failures == 1);
    assert!(status.error.unwrap().contains("the storage"), "the reason is told");
    assert_eq!(authority.log_count("/order-plz -> calling handler()"), 0);
    assert_eq!(agent.leave(), Some(0));
    let agent = Agent::start(&responder, &configuration);
    agent.certificate();
    assert_eq!(authority.issued(), 1);
}

/// The order's file fits; a key with its chain does not.
#[test]
fn a_certificate_for_which_there_was_no_room_is_not_ordered_again() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start_with_room(2, &responder, &configuration);
    let status = agent.status(|status| status.failures == 1);
    assert!(status.error.unwrap().contains("the storage"), "the reason is told");
    assert_eq!(authority.issued(), 1);
    assert_eq!(agent.leave(), Some(0));
    let agent = Agent::start(&responder, &configuration);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    agent.certificate();
    assert_eq!(authority.issued(), 1);
}

/// The wait is that of what has failed; what was mended is tried at once.
#[test]
fn after_a_failure_a_restart_waits_and_says_why_and_another_configuration_is_tried_at_once() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut wrong = configuration(&authority, storage.path(), &[&["a.test"]]);
    let right = wrong.clone();
    wrong["authorities"][0]["directory"] = json!(directory_at(free_address()));
    for _ in 0..2 {
        let agent = Agent::start(&responder, &wrong);
        let status = agent.status(|status| status.failures == 1);
        assert!(status.error.is_some(), "{status:?}");
        assert_eq!(agent.leave(), Some(0));
    }
    Agent::start(&responder, &right).certificate();
}

/// An order was forgotten, and what it would bring is older than what is there.
#[test]
fn an_order_that_is_older_than_the_certificate_is_not_gone_on_with() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start_with_room(2, &responder, &configuration);
    agent.status(|status| status.failures == 1);
    assert_eq!(agent.leave(), Some(0));
    let other = tempfile::tempdir().unwrap();
    // Times of certificates are whole seconds.
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let before = second();
    until(DEADLINE, || (second() > before + 1).then_some(())).unwrap();
    let mut elsewhere = configuration.clone();
    elsewhere["storage"] = json!(other.path());
    let newer = fs::read_to_string(Agent::start(&responder, &elsewhere).certificate()).unwrap();
    let path = storage.path().join("certificates/a.test.pem");
    fs::write(&path, &newer).unwrap();
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), path);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    agent.certificate();
    assert_ne!(fs::read_to_string(&path).unwrap(), newer);
    // The one of the forgotten order, that from elsewhere, and the next.
    assert_eq!(authority.issued(), 3);
}

/// Authorities date certificates back; who makes one by hand does not.
#[test]
fn what_was_ordered_takes_the_place_of_what_claims_to_begin_later() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(["a.test".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    let made = key.serialize_pem() + &params.self_signed(&key).unwrap().pem();
    let path = storage.path().join("certificates/a.test.pem");
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, &made).unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), path);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    agent.certificate();
    assert_ne!(fs::read_to_string(&path).unwrap(), made);
    assert_eq!(authority.issued(), 1);
}

/// From an authority for trials to another: each is asked once.
#[test]
fn a_certificate_of_an_authority_that_is_not_asked_any_more_is_replaced_once() {
    let responder = Responder::start();
    let Some(trial) = authority::start(&responder, Ways::default()) else { return };
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let names: &[&[&str]] = &[&["a.test"]];
    let first = configuration(&trial, storage.path(), names);
    let agent = Agent::start(&responder, &first);
    let path = agent.certificate();
    let of_trial = fs::read_to_string(&path).unwrap();
    assert_eq!(agent.leave(), Some(0));
    let next = configuration(&authority, storage.path(), names);
    for _ in 0..2 {
        let agent = Agent::start(&responder, &next);
        // What is there is used until the next one is.
        let is_replaced = || (fs::read_to_string(&path).unwrap() != of_trial).then_some(());
        agent.certificate();
        assert!(until(DEADLINE, is_replaced).is_some());
        agent.status(|status| status.renews_at.is_some() && status.error.is_none());
        assert_eq!(agent.leave(), Some(0));
    }
    assert_eq!((trial.issued(), authority.issued()), (1, 1));
}

#[test]
fn an_authority_that_asks_for_time_gets_it() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let busy = authority::busy_front(&authority, "503 Busy\r\nRetry-After: 7200");
    configuration["authorities"][0]["directory"] = json!(directory_at(busy));
    let agent = Agent::start(&responder, &configuration);
    let status = agent.status(|status| status.failures == 1);
    assert!(status.error.unwrap().contains("503"));
    let path = storage.path().join("failures/a.test.json");
    let failures: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let wait = failures["not_before"].as_u64().unwrap() - failures["last"].as_u64().unwrap();
    assert_eq!(wait, 7_200);
}

#[test]
fn an_answer_that_is_not_what_the_protocol_says_is_told_with_its_url() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let mut configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let url = directory_at(authority::busy_front(&authority, "200 OK"));
    configuration["authorities"][0]["directory"] = json!(url);
    let agent = Agent::start(&responder, &configuration);
    let why = agent.status(|status| status.failures == 1).error.unwrap();
    let of = format!("the authority's answer to {url} is not what RFC 8555 says: ");
    assert!(why.contains(&of) && !why.contains("serialize"), "{why}");
}

#[test]
fn of_two_agents_with_one_storage_one_orders() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"], &["b.test"]]);
    let agents: Vec<Agent> = (0..3).map(|_| Agent::start(&responder, &configuration)).collect();
    for agent in &agents {
        agent.certificate();
        agent.certificate();
    }
    assert_eq!(authority.issued(), 2);
}

/// Two servers behind one name: the authority asks the one whose agent does not order.
#[test]
fn an_agent_that_waits_answers_the_challenges_of_the_one_that_orders() {
    let (ordering, waiting) = (Responder::start(), Responder::start());
    let Some(authority) = authority::start(&waiting, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    for kind in ["http-01", "tls-alpn-01"] {
        let name: &[&str] = &[&format!("{kind}.test")];
        let mut configuration = configuration(&authority, storage.path(), &[name]);
        configuration["challenges"] = json!([kind]);
        let first = Agent::start_beside(&waiting, &ordering, &configuration);
        until(DEADLINE, || (ordering.standing() > 0).then_some(())).expect("it is set");
        let second = Agent::start(&waiting, &configuration);
        first.certificate();
        second.certificate();
        let is_clear = || (waiting.standing() + ordering.standing() == 0).then_some(());
        until(DEADLINE, is_clear).expect("challenges are cleared");
    }
    assert_eq!(authority.issued(), 2);
}

#[test]
fn a_pair_that_does_not_match_is_not_told_and_another_takes_its_place() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let pem = storage.path().join("certificates/a.test.pem");
    fs::create_dir_all(pem.parent().unwrap()).unwrap();
    fs::write(&pem, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), pem);
    assert!(fs::read_to_string(&pem).unwrap().contains("BEGIN CERTIFICATE"));
    assert_eq!(authority.issued(), 1);
}

#[test]
fn a_wrong_configuration_is_told_and_ends_the_agent() {
    let responder = Responder::start();
    let wrong = |more: Value| {
        let mut configuration = json!({
            "storage": "/nonexistent/storage",
            "authorities": [{"directory": "letsencrypt"}],
            "certificates": [["a.test"]],
        });
        configuration.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Agent::start(&responder, &configuration).ended()
    };
    assert_eq!(wrong(json!({"certificates": [["*.a.test"]]})), Some(2));
    assert_eq!(wrong(json!({"certifikates": []})), Some(2));
    assert_eq!(wrong(json!({"storage": "/dev/null/storage"})), Some(2));
}
