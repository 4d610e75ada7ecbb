//! The agent that gets certificates: a process that is executed, so that nothing of this one is
//! left in it, as the user that workers are. One runs at a time.

use std::os::fd::AsFd;
use std::path::Path;

use flyball_acme::STORAGE_NAMES;
use flyball_acme::messages::ToAgent;
use flyball_sys::clock::monotonic_ms;
use flyball_sys::error_log::Level;
use flyball_sys::readiness::Interest;
use flyball_sys::{inherit, own_directory, process, say};

use super::children::{Child, Role, name};
use super::{AGENT, Master};
use crate::agent::{Agent, Heard};
use crate::control::{Asker, Reply};
use crate::handover;
use crate::sandbox::Part;
use crate::server::Setup;

/// This program, also where another file has its name by now.
const PROGRAM: &str = "/proc/self/exe";

/// How it is called.
const ARGUMENTS: [&str; 2] = ["flyball", "acme-agent"];

/// Exit code of a process that could not become the agent.
const NOT_RUN: i32 = 127;

impl Master {
    /// Has the agent do what these settings say: one that does so already goes on, another is
    /// ended. What workers of this generation answer authorities is what it wants answered.
    fn change_agent(&mut self) -> std::io::Result<()> {
        let wanted = self.server.setup.acme.as_deref();
        let is_same = self.ways.agent.as_ref().map(Agent::configuration) == wanted;
        let runs = self.children.iter().any(|child| child.role == Role::Agent);
        if is_same && runs == wanted.is_some() {
            self.answer_challenges(&[]);
            return Ok(());
        }
        self.end_agent();
        if self.server.setup.acme.is_none() {
            return Ok(());
        }
        self.children.push(Child::new(Role::Agent, 0, 0, &self.shared));
        self.start(self.children.len() - 1)
    }

    /// [`Master::change_agent`], for readers of standard error: sites are served without it.
    pub(super) fn begin_agent(&mut self) {
        if let Err(error) = self.change_agent() {
            say!(Level::Error, "cannot start {}: {error}", name(Role::Agent));
            let agent = self.children.iter_mut().find(|child| child.role == Role::Agent);
            agent.into_iter().for_each(|child| child.restart.failed(monotonic_ms()));
        }
    }

    /// Ends the agent, and waits until it has ended. Whatever it is doing, another goes on there.
    pub(super) fn end_agent(&mut self) {
        self.let_agent_go();
        let Some(at) = self.children.iter().position(|child| child.role == Role::Agent) else {
            return;
        };
        if let Some(process) = self.children.swap_remove(at).process {
            process::kill(process);
            // It fails where it was reaped already.
            let _ = process::wait_for(process);
        }
    }

    /// The agent has ended, or is about to: it is not heard any more.
    pub(super) fn let_agent_go(&mut self) {
        if let Some(mut agent) = self.ways.agent.take() {
            self.mechanism.remove(agent.descriptor());
            self.answer_challenges(&[]);
            if let Some(waiting) = agent.take_waiting() {
                let why = "the agent has ended before it wrote that down: ask again";
                self.answer(&waiting.asker, Err(format!("{}: {why}", waiting.name)));
            }
        }
    }

    /// Forks a process that becomes the agent.
    pub(super) fn start_agent(&mut self, at: usize) -> std::io::Result<()> {
        let Setup { acme: Some(configuration), confinement, settings, sites, .. } =
            &self.server.setup
        else {
            self.children[at].restart.due_ms = None;
            return Ok(());
        };
        let storage = &configuration.storage;
        let identity = confinement.identity_of_agent();
        let prepared = own_directory::prepare(storage, identity.as_ref(), &STORAGE_NAMES);
        prepared.map_err(|error| {
            std::io::Error::new(error.kind(), format!("{}: {error}", storage.display()))
        })?;
        let (agent, theirs) = Agent::new((**configuration).clone())?;
        let master = process::own_id();
        let process = process::fork_holding(&[theirs.as_fd()], || {
            let begun = process::die_with_parent(master)
                .and_then(|()| confinement.confine(Part::Agent, settings, sites, Some(master)));
            let error = match begun {
                Ok(()) => {
                    let unset = [&handover::SYSTEMD[..], &handover::VARIABLES].concat();
                    inherit::become_program(Path::new(PROGRAM), &ARGUMENTS, &theirs, &unset)
                }
                Err(error) => error,
            };
            say!(Level::Error, "{}: {error}", name(Role::Agent));
            NOT_RUN
        })?;
        self.mechanism.add(agent.descriptor(), AGENT, Interest::READ)?;
        self.ways.agent = Some(agent);
        self.wait_for_agent();
        self.children[at].started(process);
        say!(Level::Debug, "the agent is process {}", process.number());
        Ok(())
    }

    /// Waits for the agent to say more, and to read what it has not been told yet.
    fn wait_for_agent(&mut self) {
        let Some(agent) = &self.ways.agent else { return };
        // It can only fail where memory is out; then the next message is told with the one after.
        let _ = self.mechanism.change(agent.descriptor(), AGENT, agent.interest());
    }

    /// Hears what the agent says, and does it. One that makes no sense is ended, and started again.
    pub(super) fn hear_agent(&mut self) {
        let Some(agent) = &mut self.ways.agent else { return };
        let heard = agent.write().and_then(|()| agent.hear());
        let Heard { has_certificate, has_status, challenges, answer } = match heard {
            Ok(heard) => heard,
            Err(error) => {
                say!(Level::Debug, "the agent: {error}");
                self.let_agent_go();
                let agent = self.children.iter().find(|child| child.role == Role::Agent);
                agent.and_then(|child| child.process).into_iter().for_each(process::kill);
                return;
            }
        };
        if let Some(waited_for) = challenges {
            self.answer_challenges(&waited_for);
        }
        if let Some(tls) = self.server.setup.tls.as_mut().filter(|_| has_certificate) {
            tls.look_soon();
        }
        self.wait_for_agent();
        self.due.admin_is_stale |= has_status;
        if let Some((asker, done)) = answer {
            self.answer(&asker, done);
        } else if has_status {
            self.refresh_admin();
        }
    }

    /// Tells the agent what is to be done about the certificate of this name, and what to answer
    /// who asks; nothing where the agent is to say first that it has written it down.
    ///
    /// # Errors
    /// Why it is not told.
    pub(super) fn tell_agent(
        &mut self,
        asker: &Asker,
        message: &ToAgent,
    ) -> Result<Option<Reply>, String> {
        let agent = self.ways.agent.as_mut().ok_or("no agent runs, which gets certificates")?;
        let said = agent.ask(asker, message, monotonic_ms())?;
        self.wait_for_agent();
        Ok(said.map(Reply::Done))
    }

    /// Has workers answer what the agent wants answered, and tells it so of these.
    fn answer_challenges(&mut self, waited_for: &[u64]) {
        let (challenges, failed) =
            self.ways.agent.as_ref().map(Agent::challenges).unwrap_or_default();
        let Some(tls) = &mut self.server.setup.tls else { return };
        let handed = tls.challenge(challenges);
        tls.look_soon();
        let Some(agent) = &mut self.ways.agent else { return };
        for id in waited_for {
            let of_it = failed.iter().find(|(known, _)| known == id).map(|(_, why)| why.clone());
            let message = match of_it.or_else(|| handed.as_ref().err().cloned()) {
                Some(why) => ToAgent::ChallengeFails { id: *id, why },
                None => ToAgent::ChallengeStands { id: *id },
            };
            if let Err(error) = agent.tell(&message) {
                // Its end is seen when it is heard next.
                say!(Level::Debug, "the agent: {error}");
            }
        }
    }
}
