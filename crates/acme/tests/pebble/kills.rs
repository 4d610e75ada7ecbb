//! An agent that is killed at each step of an order: the next one goes on, and one certificate is
//! issued.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use flyball_acme::messages::ToAgent;
use flyball_testkit::wait::{DEADLINE, until};
use serde_json::json;

use crate::agent::{Agent, configuration};
use crate::authority::{self, Ways, directory_at};
use crate::requests::{open_requests, serial};
use crate::responder::Responder;

/// When an agent is killed: each request of it has a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before this request is sent.
    Request(usize),
    /// When this request was answered, and nothing of the answer has come.
    Answer(usize),
}

/// Between an agent and its authority, whose bytes it does not understand.
struct Middle {
    at: SocketAddr,
    told: Receiver<()>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    seen: usize,
    kill: Option<At>,
}

impl Middle {
    fn start(to: SocketAddr) -> Middle {
        let listener = TcpListener::bind("127.64.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let (tell, told) = channel();
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (state, tell) = (Arc::clone(&shared), tell.clone());
                thread::spawn(move || pass(client.unwrap(), to, &state, &tell));
            }
        });
        Middle { at, told, state }
    }

    /// From now on requests are counted, and one is the last.
    fn arm(&self, kill: Option<At>) {
        // A step that an agent reached after it was done.
        while self.told.try_recv().is_ok() {}
        *self.state.lock().unwrap() = State { seen: 0, kill };
    }

    fn seen(&self) -> usize {
        self.state.lock().unwrap().seen
    }
}

/// One connection. Where the agent is to be killed it is held until then: the agent gets nothing.
fn pass(client: TcpStream, to: SocketAddr, state: &Mutex<State>, tell: &Sender<()>) -> Option<()> {
    let (number, kill) = {
        let mut state = state.lock().unwrap();
        state.seen += 1;
        (state.seen, state.kill)
    };
    if kill == Some(At::Request(number)) {
        tell.send(()).ok()?;
        return hold(client);
    }
    let server = TcpStream::connect(to).ok()?;
    let (mut from_server, mut from_client) = (server.try_clone().ok()?, client.try_clone().ok()?);
    let (mut to_server, mut to_client) = (server, client.try_clone().ok()?);
    let is_asked = Arc::new(Mutex::new(false));
    let asked = Arc::clone(&is_asked);
    let up = thread::spawn(move || {
        let mut flights = 0;
        copy(&mut from_client, |bytes| {
            // The hello comes first; with the end of the handshake comes the request.
            flights += 1;
            *asked.lock().unwrap() = flights > 1;
            to_server.write_all(bytes).is_ok()
        });
        let _ = to_server.shutdown(Shutdown::Write);
    });
    let is_last = kill == Some(At::Answer(number));
    copy(&mut from_server, |bytes| {
        let is_answer = *is_asked.lock().unwrap();
        (is_last && is_answer) || to_client.write_all(bytes).is_ok()
    });
    if is_last {
        tell.send(()).ok()?;
        return hold(client);
    }
    let _ = to_client.shutdown(Shutdown::Write);
    let _ = up.join();
    Some(())
}

fn copy(from: &mut TcpStream, mut each: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if !each(&buffer[..read]) {
            return;
        }
    }
}

/// Until the client has gone.
fn hold(mut client: TcpStream) -> Option<()> {
    copy(&mut client, |_| true);
    None
}

/// Killed between the two, the agent leaves the certificate and the order that brought it.
#[test]
fn an_order_whose_certificate_is_there_is_not_taken_for_a_new_one() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let storage = tempfile::tempdir().unwrap();
    let configuration = configuration(&authority, storage.path(), &[&["a.test"]]);
    let agent = Agent::start_with_room(2, &responder, &configuration);
    agent.status(|status| status.failures == 1);
    assert_eq!(agent.leave(), Some(0));
    let order = storage.path().join("orders/a.test.json");
    let left = fs::read(&order).unwrap();
    let agent = Agent::start(&responder, &configuration);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    let path = agent.certificate();
    assert_eq!(agent.leave(), Some(0));
    let first = fs::read(&path).unwrap();
    fs::write(&order, left).unwrap();
    let agent = Agent::start(&responder, &configuration);
    assert_eq!(agent.certificate(), path);
    agent.tell(&ToAgent::Renew { name: "a.test".into() });
    agent.certificate();
    assert_ne!(fs::read(&path).unwrap(), first);
    assert_eq!(authority.issued(), 2);
}

/// Waits for the step that is armed, or for the certificate where there are fewer: whether the step
/// came.
fn reaches_step(middle: &Middle, agent: &Agent) -> bool {
    let reached = until(DEADLINE, || {
        let is_reached = middle.told.try_recv().is_ok();
        (is_reached || agent.has_certificate()).then_some(is_reached)
    });
    reached.expect("the step comes, or the certificate")
}

/// Does it once undisturbed, then once for each request and each answer of that, with the agent
/// killed there. `work` says whether it was: one time may have fewer requests than another.
fn killed_at_each_step(middle: &Middle, least: usize, work: impl Fn(&str, Option<At>) -> bool) {
    assert!(!work("whole.test", None));
    let requests = middle.seen();
    let mut kills = 0;
    for number in 1..=requests {
        kills += usize::from(work(&format!("request{number}.test"), Some(At::Request(number))));
        kills += usize::from(work(&format!("answer{number}.test"), Some(At::Answer(number))));
    }
    assert!(kills >= least, "{kills} kills, of {requests} requests");
}

/// Steps at which an agent is killed at least: an order with a new account has more requests, of
/// which some are repeated until the authority is ready.
const KILLS_MIN: usize = 18;

#[test]
#[ignore = "full tier"]
fn killed_at_any_step_an_order_goes_on_and_issues_one_certificate() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let middle = Middle::start(authority.at);
    // Whether the agent was killed: an order may have fewer requests than another.
    let order = |name: &str, kill: Option<At>| {
        let storage = tempfile::tempdir().unwrap();
        let mut configuration = configuration(&authority, storage.path(), &[&[name]]);
        configuration["authorities"][0]["directory"] = json!(directory_at(middle.at));
        middle.arm(kill);
        let before = authority.issued();
        let mut agent = Agent::start(&responder, &configuration);
        let is_killed = reaches_step(&middle, &agent);
        if is_killed {
            agent.kill();
            middle.arm(None);
            agent = Agent::start(&responder, &configuration);
            agent.certificate();
        }
        assert_eq!(authority.issued() - before, 1, "killed at {kill:?}");
        let mut left = fs::read_dir(storage.path().join("challenges")).unwrap();
        assert!(left.next().is_none(), "killed at {kill:?}");
        is_killed
    };
    killed_at_each_step(&middle, KILLS_MIN, order);
}

/// Requests of a revocation and of the order that follows it, of which each is a step at least.
const REVOCATION_KILLS_MIN: usize = 20;

#[test]
#[ignore = "full tier"]
fn killed_at_any_step_a_revocation_is_done_and_one_other_certificate_is_issued() {
    let responder = Responder::start();
    let Some(authority) = authority::start(&responder, Ways::default()) else { return };
    let middle = Middle::start(authority.at);
    let revoke = |name: &str, kill: Option<At>| {
        let storage = tempfile::tempdir().unwrap();
        let mut configuration = configuration(&authority, storage.path(), &[&[name]]);
        configuration["authorities"][0]["directory"] = json!(directory_at(middle.at));
        middle.arm(None);
        let mut agent = Agent::start(&responder, &configuration);
        let path = agent.certificate();
        let (first, before) = (serial(&path), authority.issued());
        middle.arm(kill);
        agent.tell(&ToAgent::Revoke { name: name.into() });
        agent.has_noted();
        let is_killed = reaches_step(&middle, &agent);
        if is_killed {
            agent.kill();
            middle.arm(None);
            agent = Agent::start(&responder, &configuration);
        }
        let is_other = || (serial(&path) != first).then_some(());
        assert!(until(DEADLINE, is_other).is_some(), "killed at {kill:?}");
        assert!(authority.has_revoked(&first), "killed at {kill:?}");
        let is_over = || open_requests(storage.path()).is_empty().then_some(());
        assert!(until(DEADLINE, is_over).is_some(), "killed at {kill:?}");
        assert_eq!(authority.issued() - before, 1, "killed at {kill:?}");
        assert_eq!(agent.leave(), Some(0));
        is_killed
    };
    killed_at_each_step(&middle, REVOCATION_KILLS_MIN, revoke);
}
