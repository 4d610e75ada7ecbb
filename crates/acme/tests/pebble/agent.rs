//! The agent as a process, and what the master does for it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use flyball_acme::messages::{FromAgent, Note, Status, ToAgent};
use flyball_testkit::binary;
use flyball_testkit::wait::{DEADLINE, until};
use serde_json::{Value, json};

use crate::responder::Responder;
use flyball_testkit::pebble::Authority;

/// Its standard input, until that is closed.
type Input = Arc<Mutex<Option<ChildStdin>>>;

/// A running agent.
pub(crate) struct Agent {
    child: Child,
    input: Input,
    messages: Receiver<FromAgent>,
}

/// A configuration for one authority.
pub(crate) fn configuration(
    authority: &Authority,
    storage: &Path,
    certificates: &[&[&str]],
) -> Value {
    json!({
        "storage": storage,
        "authorities": [{"directory": authority.url(), "roots": authority.roots()}],
        "challenges": ["http-01"],
        "certificates": certificates,
    })
}

impl Agent {
    /// Starts one whose challenges the responder answers.
    pub(crate) fn start(responder: &Responder, configuration: &Value) -> Agent {
        let mut command = Command::new(binary());
        command.arg("acme-agent");
        Agent::start_as(command, responder, None, configuration)
    }

    /// As [`start`](Agent::start), whose challenges stand only when `other` answers one too.
    pub(crate) fn start_beside(
        other: &Responder,
        responder: &Responder,
        configuration: &Value,
    ) -> Agent {
        let mut command = Command::new(binary());
        command.arg("acme-agent");
        Agent::start_as(command, responder, Some(other.clone()), configuration)
    }

    /// As [`start`](Agent::start), below this shell's `ulimit -f`, in blocks of 512 bytes: a disk
    /// that has room for no larger file.
    pub(crate) fn start_with_room(
        blocks: u32,
        responder: &Responder,
        configuration: &Value,
    ) -> Agent {
        let mut command = Command::new("sh");
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" acme-agent");
        command.args(["-c", &script]).arg(binary());
        Agent::start_as(command, responder, None, configuration)
    }

    fn start_as(
        mut command: Command,
        responder: &Responder,
        other: Option<Responder>,
        configuration: &Value,
    ) -> Agent {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = Arc::new(Mutex::new(child.stdin.take()));
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        let (responder, answers, id_of) = (responder.clone(), Arc::clone(&input), child.id());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let message: FromAgent = serde_json::from_str(&line).unwrap();
                match message {
                    FromAgent::ChallengeSet { id, challenge } => {
                        responder.set(id_of, id, challenge);
                        if let Some(other) = &other {
                            until(DEADLINE, || (other.standing() > 0).then_some(())).unwrap();
                        }
                        // One that was killed meanwhile does not read it.
                        let _ = write(&answers, &ToAgent::ChallengeStands { id });
                    }
                    FromAgent::ChallengeClear { id } => responder.clear(id_of, id),
                    message => drop(sender.send(message)),
                }
            }
        });
        let agent = Agent { child, input, messages };
        let configure = json!({"configure": configuration}).to_string();
        let mut input = agent.input.lock().unwrap();
        writeln!(input.as_mut().unwrap(), "{configure}").unwrap();
        drop(input);
        agent
    }

    /// Tells it something.
    pub(crate) fn tell(&self, message: &ToAgent) {
        write(&self.input, message).unwrap();
    }

    /// The next file that is ready.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.until(|message| match message {
            FromAgent::Certificate { path, .. } => Some(path),
            _ => None,
        })
    }

    /// Waits until it has said that what it was told stays in the storage.
    pub(crate) fn has_noted(&self) {
        self.until(|message| match message {
            FromAgent::Noted { how, .. } => {
                assert_eq!(how, Note::Written);
                Some(())
            }
            _ => None,
        });
    }

    /// What it knows of requests to an agent before it: how long ago a renewal and a revocation
    /// were asked for, in seconds.
    pub(crate) fn asked_before(&self) -> (Option<u64>, Option<u64>) {
        self.until(|message| match message {
            FromAgent::AskedBefore { renewal, revocation, .. } => Some((renewal, revocation)),
            _ => None,
        })
    }

    /// Whether a file is ready: a look, which does not wait.
    pub(crate) fn has_certificate(&self) -> bool {
        self.messages.try_iter().any(|message| matches!(message, FromAgent::Certificate { .. }))
    }

    /// The next status of a certificate of which this is true.
    pub(crate) fn status(&self, wanted: impl Fn(&Status) -> bool) -> Status {
        self.until(|message| match message {
            FromAgent::Status(all) => all.into_iter().find(&wanted),
            _ => None,
        })
    }

    fn until<T>(&self, mut wanted: impl FnMut(FromAgent) -> Option<T>) -> T {
        loop {
            let message = self.messages.recv_timeout(DEADLINE).expect("the agent tells something");
            if let Some(found) = wanted(message) {
                return found;
            }
        }
    }

    /// Kills it as `kill -9` does, and waits until it has ended.
    pub(crate) fn kill(&mut self) {
        // Neither fails for a child that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it has ended by itself: its exit code.
    pub(crate) fn ended(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Closes its input, upon which it ends: its exit code.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.input.lock().unwrap().take();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn write(input: &Input, message: &ToAgent) -> std::io::Result<()> {
    let mut input = input.lock().unwrap();
    let Some(input) = input.as_mut() else { return Ok(()) };
    writeln!(input, "{}", serde_json::to_string(message).unwrap())
}
