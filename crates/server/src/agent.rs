//! The master's end of what it and the agent tell each other (`flyball_acme::messages`): lines of
//! JSON over a socket, of which neither is ever waited for. The agent talks with the outside
//! world, so that what it says is checked as if it were hostile.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use flyball_acme::messages::{
    ASKED_APART_S, Challenge, FromAgent, MESSAGE_MAX, Note, Status, ToAgent,
};
use flyball_acme::{Configuration, Name};
use flyball_sys::clock::monotonic_ms;
use flyball_sys::net;
use flyball_sys::readiness::Interest;
use flyball_tls::Pair;

use crate::control::{Asker, COMMAND_MS_MAX, Reply};
use crate::tls::Challenges;

/// Most challenges that are answered at a time.
const CHALLENGES_MAX: usize = 512;

/// Most bytes that wait to be told to the agent.
const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// Bytes that are read from it at a time.
const READ_BYTES: usize = 64 * 1024;

/// From one request of the operator for a certificate to the next that is passed on, in
/// milliseconds.
const ASKED_APART_MS: u64 = 60_000;
const _: () = assert!(ASKED_APART_MS == ASKED_APART_S * 1_000);

/// What is said of a request that the agent has taken.
const TOLD: &str = "the agent is told; /status and the error log say how it goes";

/// Longest value of a status, in bytes; longer ones are cut.
const TEXT_BYTES_MAX: usize = 1_024;

/// A running agent.
#[derive(Debug)]
pub(crate) struct Agent {
    way: OwnedFd,
    configuration: Configuration,
    input: Vec<u8>,
    output: Vec<u8>,
    challenges: BTreeMap<u64, Challenge>,
    /// What is known of each certificate, in the order of the configuration.
    statuses: Vec<Option<Status>>,
    /// What is under way for each.
    orders: Vec<Order>,
    /// The operator waits for what the agent says to this.
    waiting: Option<Waiting>,
}

/// An operator who waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// The name of the certificate, as it was asked for.
    pub(crate) name: String,
    pub(crate) asker: Asker,
    /// When it was asked, in milliseconds of the monotonic clock.
    asked_ms: u64,
}

/// What is under way for a certificate. Times are milliseconds of the monotonic clock.
#[derive(Clone, Debug, Default)]
struct Order {
    /// The agent orders it now, for whatever reason.
    is_under_way: bool,
    /// When the operator asked last that it be renewed.
    renewal_ms: Option<u64>,
    /// And that it be revoked, which is followed by an order too.
    revocation_ms: Option<u64>,
}

impl Order {
    /// Notes what the operator asks for; what to answer where it is under way already. What a
    /// renewal does is no revocation, and neither is an order that is under way.
    ///
    /// # Errors
    /// That it was asked for a moment ago: whether it was done then is not known.
    fn ask(&mut self, message: &ToAgent, now_ms: u64) -> Result<Option<String>, String> {
        let is_revocation = matches!(message, ToAgent::Revoke { .. });
        let last = match is_revocation {
            true => self.revocation_ms,
            false => self.renewal_ms.max(self.revocation_ms),
        };
        if self.is_under_way && !is_revocation {
            return Ok(Some("is being renewed already".into()));
        }
        let ago = last.map(|last| now_ms.saturating_sub(last)).filter(|ago| *ago < ASKED_APART_MS);
        if let Some(ago) = ago {
            let (ago, apart) = (ago / 1_000, ASKED_APART_MS / 1_000);
            return Err(format!(
                "was asked for {ago} s ago, and is done once in {apart} s: it is not done again; \
                 /status and the error log say how it went"
            ));
        }
        let asked = if is_revocation { &mut self.revocation_ms } else { &mut self.renewal_ms };
        *asked = Some(now_ms);
        Ok(None)
    }
}

/// What the master has to do about what the agent has said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// A certificate lies ready in the storage.
    pub(crate) has_certificate: bool,
    /// What is known of certificates has changed.
    pub(crate) has_status: bool,
    /// Other challenges are to be answered; these are waited for, by their numbers.
    pub(crate) challenges: Option<Vec<u64>>,
    /// What to answer an operator who waits.
    pub(crate) answer: Option<(Asker, Result<Reply, String>)>,
}

impl Agent {
    /// The end of the master, of which the other end is given to the agent, and what it is told
    /// first.
    ///
    /// # Errors
    /// When descriptors are out.
    pub(crate) fn new(configuration: Configuration) -> io::Result<(Agent, OwnedFd)> {
        let (way, theirs) = net::stream_pair()?;
        net::set_nonblocking(&way, true)?;
        let statuses = vec![None; configuration.certificates.len()];
        let orders = vec![Order::default(); configuration.certificates.len()];
        let (input, output, challenges) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut agent = Agent {
            way,
            configuration: configuration.clone(),
            input,
            output,
            challenges,
            statuses,
            orders,
            waiting: None,
        };
        agent.tell(&ToAgent::Configure(Box::new(configuration)))?;
        Ok((agent, theirs))
    }

    /// What it is to do.
    pub(crate) fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.way.as_fd()
    }

    /// What the master waits for.
    pub(crate) fn interest(&self) -> Interest {
        if self.output.is_empty() { Interest::READ } else { Interest::BOTH }
    }

    /// Which certificate that it gets is for this name.
    fn named(&self, name: &str) -> Option<usize> {
        let name = Name::parse(name).ok()?;
        let is_it = |known: &String| Name::parse(known).is_ok_and(|known| known == name);
        self.configuration.certificates.iter().position(|names| names.iter().any(is_it))
    }

    /// Tells it what the operator wants of the certificate of this name, unless that is under way:
    /// what to answer, or nothing where the agent's own answer is to be waited for.
    ///
    /// # Errors
    /// Where it keeps none of this name, was asked for the same a moment ago, or cannot be told.
    pub(crate) fn ask(
        &mut self,
        asker: &Asker,
        message: &ToAgent,
        now_ms: u64,
    ) -> Result<Option<String>, String> {
        let (ToAgent::Renew { name } | ToAgent::Revoke { name }) = message else { return Ok(None) };
        let at = self.named(name);
        let at = at.ok_or_else(|| {
            format!(
                "no certificate for {name} comes by ACME: no site of this server has that host and \
                 such a certificate, whatever the storage still holds"
            )
        })?;
        let named = |said: String| format!("{name}: {said}");
        if let Some(said) = self.orders[at].ask(message, now_ms).map_err(named)? {
            return Ok(Some(named(said)));
        }
        self.tell(message).map_err(|error| format!("the agent: {error}"))?;
        let (name, asker) = (name.to_owned(), asker.clone());
        self.waiting = Some(Waiting { name, asker, asked_ms: now_ms });
        Ok(None)
    }

    /// The operator who waits for what the agent says, and is not answered by it any more.
    pub(crate) fn take_waiting(&mut self) -> Option<Waiting> {
        self.waiting.take()
    }

    /// Whether an operator waits, who has not given up yet.
    pub(crate) fn is_waited_for(&self, now_ms: u64) -> bool {
        let waits = |it: &Waiting| now_ms.saturating_sub(it.asked_ms) < COMMAND_MS_MAX;
        self.waiting.as_ref().is_some_and(waits)
    }

    /// The agent has said how it takes what the operator asks for. One that is not done may be
    /// asked for again at once.
    fn noted(&mut self, name: &str, how: Note) -> Option<(Asker, Result<Reply, String>)> {
        let Waiting { asker, .. } = self.waiting.take_if(|waiting| waiting.name == name)?;
        let done = match how {
            Note::Written => Ok(Reply::Done(format!("{name}: {TOLD}"))),
            Note::Unwritten(why) => Ok(Reply::Done(format!(
                "{name}: {TOLD}; it is forgotten where the agent ends before it is done: {}",
                cut(why)
            ))),
            Note::Refused(why) => {
                if let Some(at) = self.named(name) {
                    (self.orders[at].renewal_ms, self.orders[at].revocation_ms) = (None, None);
                }
                Err(format!("{name}: {}", cut(why)))
            }
        };
        Some((asker, done))
    }

    /// What is known of certificates.
    pub(crate) fn statuses(&self) -> Vec<Status> {
        self.statuses.iter().flatten().cloned().collect()
    }

    /// Tells it something, as far as it reads; the rest leaves by [`Agent::write`].
    ///
    /// # Errors
    /// When it has gone, or does not read.
    pub(crate) fn tell(&mut self, message: &ToAgent) -> io::Result<()> {
        serde_json::to_writer(&mut self.output, message)?;
        self.output.push(b'\n');
        if self.output.len() > OUTPUT_BYTES_MAX {
            return Err(io::Error::other("it does not read what it is told"));
        }
        self.write()
    }

    /// Tells it what is left to be told. Never waits.
    ///
    /// # Errors
    /// When it has gone.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            match net::send(&self.way, &self.output, false) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Hears what it has said. Never waits.
    ///
    /// # Errors
    /// When it has gone, or what it says makes no sense: it must be ended then.
    pub(crate) fn hear(&mut self) -> io::Result<Heard> {
        let at = self.input.len();
        self.input.resize(at + READ_BYTES, 0);
        let read = match net::recv(&self.way, &mut self.input[at..]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if is_for_later(&error) => Ok(0),
            read => read,
        };
        self.input.truncate(at + *read.as_ref().unwrap_or(&0));
        read?;
        let mut heard = Heard::default();
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            self.take(serde_json::from_slice(&line)?, &mut heard)?;
        }
        match self.input.len() > MESSAGE_MAX {
            true => Err(io::Error::other("a message is too long")),
            false => Ok(heard),
        }
    }

    fn take(&mut self, message: FromAgent, heard: &mut Heard) -> io::Result<()> {
        match message {
            // Where it lies is known, and not for the agent to say.
            FromAgent::Certificate { .. } => heard.has_certificate = true,
            FromAgent::Status(statuses) => {
                statuses.into_iter().for_each(|status| self.know(status));
                heard.has_status = true;
            }
            FromAgent::OrderBegins { name } => self.order(&name, true),
            FromAgent::OrderEnds { name } => self.order(&name, false),
            FromAgent::Noted { name, how } => {
                heard.answer = self.noted(&name, how).or(heard.answer.take());
            }
            FromAgent::AskedBefore { name, renewal, revocation } => {
                self.remember(&name, renewal, revocation);
            }
            FromAgent::ChallengeSet { id, challenge } => {
                if self.challenges.len() >= CHALLENGES_MAX {
                    return Err(io::Error::other("it has too many challenges"));
                }
                self.challenges.insert(id, challenge);
                heard.challenges.get_or_insert_default().push(id);
            }
            FromAgent::ChallengeClear { id } => {
                self.challenges.remove(&id);
                heard.challenges.get_or_insert_default().retain(|known| *known != id);
            }
        }
        Ok(())
    }

    fn order(&mut self, name: &str, is_under_way: bool) {
        if let Some(at) = self.named(name) {
            self.orders[at].is_under_way = is_under_way;
        }
    }

    /// What was asked of an agent before this one, so many seconds ago.
    fn remember(&mut self, name: &str, renewal: Option<u64>, revocation: Option<u64>) {
        let Some(at) = self.named(name) else { return };
        let now_ms = monotonic_ms();
        let when = |ago: u64| now_ms.saturating_sub(ago.saturating_mul(1_000));
        let order = &mut self.orders[at];
        order.renewal_ms = order.renewal_ms.max(renewal.map(when));
        order.revocation_ms = order.revocation_ms.max(revocation.map(when));
    }

    /// Only what was asked for is kept.
    fn know(&mut self, mut status: Status) {
        let at = self.configuration.certificates.iter().position(|names| {
            names
                .first()
                .zip(status.names.first())
                .is_some_and(|(name, told)| name.eq_ignore_ascii_case(told))
        });
        let Some(at) = at else { return };
        status.names.clone_from(&self.configuration.certificates[at]);
        status.issuer = cut(status.issuer);
        status.error = status.error.map(cut);
        self.statuses[at] = Some(status);
    }

    /// What workers are to answer; those that they cannot, by their numbers, with the reason.
    pub(crate) fn challenges(&self) -> (Challenges, Vec<(u64, String)>) {
        let (mut challenges, mut failed) = (Challenges::default(), Vec::new());
        for (id, challenge) in &self.challenges {
            match challenge {
                Challenge::Http01 { token, answer } => {
                    challenges.answers.push((token.clone(), answer.clone()));
                }
                Challenge::TlsAlpn01 { name, chain, key } => {
                    match Pair::of_challenge(chain.as_bytes(), key.as_bytes()) {
                        Ok(pair) => challenges.shown.push((name.clone(), pair)),
                        Err(fault) => failed.push((*id, fault.to_string())),
                    }
                }
            }
        }
        (challenges, failed)
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn cut(mut text: String) -> String {
    let end = (0..=TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_acme::Authority;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn agent() -> (Agent, UnixStream) {
        let configuration = Configuration {
            storage: "/s".into(),
            authorities: vec![Authority::new("letsencrypt")],
            email: None,
            challenges: Vec::new(),
            dns_hook: Vec::new(),
            confines: true,
            certificates: vec![vec!["a.test".into(), "b.test".into()]],
        };
        let (agent, theirs) = Agent::new(configuration).unwrap();
        (agent, theirs.into())
    }

    fn said(agent: &mut Agent, theirs: &mut UnixStream, text: &str) -> io::Result<Heard> {
        theirs.write_all(text.as_bytes()).unwrap();
        agent.hear()
    }

    #[test]
    fn it_is_told_what_to_do_first() {
        let (_agent, mut theirs) = agent();
        let mut told = [0; 4_096];
        let len = theirs.read(&mut told).unwrap();
        assert!(told[..len].starts_with(b"{\"configure\":{") && told[..len].ends_with(b"\n"));
    }

    #[test]
    fn what_it_says_may_come_in_pieces_and_more_at_once() {
        let (mut agent, mut theirs) = agent();
        let challenge = r#"{"challenge-set": {"id": 7, "challenge": {"http01":"#;
        assert_eq!(said(&mut agent, &mut theirs, challenge).unwrap(), Heard::default());
        let rest =
            "{\"token\": \"t\", \"answer\": \"t.k\"}}}}\n{\"challenge-clear\": {\"id\": 6}}\n";
        let heard = said(&mut agent, &mut theirs, rest).unwrap();
        assert_eq!(heard.challenges, Some(vec![7]));
        let (challenges, failed) = agent.challenges();
        assert_eq!(challenges.answers, [("t".to_owned(), "t.k".to_owned())]);
        assert!(failed.is_empty());
        let clear = "{\"challenge-clear\": {\"id\": 7}}\n";
        assert_eq!(said(&mut agent, &mut theirs, clear).unwrap().challenges, Some(Vec::new()));
        assert!(agent.challenges().0.answers.is_empty());
    }

    #[test]
    fn what_cannot_be_shown_is_known_by_its_number() {
        let (mut agent, mut theirs) = agent();
        let text = r#"{"challenge-set": {"id": 3, "challenge": {"tls-alpn01":
            {"name": "a.test", "chain": "x", "key": "y"}}}}"#;
        said(&mut agent, &mut theirs, &(text.replace('\n', " ") + "\n")).unwrap();
        let (challenges, failed) = agent.challenges();
        assert!(challenges.shown.is_empty());
        assert_eq!(failed[0].0, 3);
    }

    #[test]
    fn only_certificates_that_were_asked_for_have_a_status_and_errors_have_an_end() {
        let (mut agent, mut theirs) = agent();
        let long = "\u{fc}".repeat(TEXT_BYTES_MAX);
        let text = format!(
            "{{\"status\": [{{\"names\": [\"A.test\"], \"issuer\": \"\", \"failures\": 2, \
             \"error\": \"{long}\", \"not-before\": null, \"not-after\": null, \
             \"renews-at\": null}}, {{\"names\": [\"c.test\"], \"issuer\": \"\", \"failures\": 0, \
             \"error\": null, \"not-before\": null, \"not-after\": null, \"renews-at\": null}}]}}\n"
        );
        assert!(said(&mut agent, &mut theirs, &text).unwrap().has_status);
        let statuses = agent.statuses();
        assert_eq!((statuses.len(), statuses[0].names[1].as_str()), (1, "b.test"));
        assert_eq!(statuses[0].error.as_ref().unwrap().len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn what_makes_no_sense_or_never_ends_is_an_error_and_so_is_the_end() {
        let (mut one, mut theirs) = agent();
        assert!(said(&mut one, &mut theirs, "{\"x\": 1}\n").is_err());
        let (mut other, theirs) = agent();
        drop(theirs);
        assert!(other.hear().is_err());
        let (mut endless, mut theirs) = agent();
        let piece = vec![b' '; READ_BYTES];
        let mut pieces = 0;
        while pieces <= MESSAGE_MAX / READ_BYTES {
            theirs.write_all(&piece).unwrap();
            match endless.hear() {
                Ok(_) => pieces += 1,
                Err(_) => return,
            }
        }
        assert!(endless.hear().is_err());
    }

    #[test]
    fn what_is_under_way_or_was_asked_for_a_moment_ago_is_not_told_again() {
        let (mut agent, mut theirs) = agent();
        let renew = |name: &str| ToAgent::Renew { name: name.into() };
        let revoke = |name: &str| ToAgent::Revoke { name: name.into() };
        let (told, under_way, just_now) = ("", "being renewed", " s ago");
        let ask = |agent: &mut Agent, message: &ToAgent, s: u64, how: &str| match agent.ask(
            &Asker::default(),
            message,
            s * 1_000,
        ) {
            Ok(None) => assert_eq!(how, told, "{s}"),
            Ok(Some(said)) => assert!(how == under_way && said.contains(how), "{s}: {said}"),
            Err(why) => assert!(!how.is_empty() && why.contains(how), "{s}: {why}"),
        };
        ask(&mut agent, &renew("c.test"), 0, "no certificate for c.test comes by ACME");
        ask(&mut agent, &renew("B.TEST."), 0, told);
        for (name, s, how) in
            [("a.test", 1, just_now), ("b.test", 59, just_now), ("a.test", 60, told)]
        {
            ask(&mut agent, &renew(name), s, how);
        }
        let begins = "{\"order-begins\": {\"name\": \"a.test\"}}\n";
        said(&mut agent, &mut theirs, begins).unwrap();
        ask(&mut agent, &renew("a.test"), 300, under_way);
        ask(&mut agent, &revoke("a.test"), 300, told);
        ask(&mut agent, &revoke("a.test"), 301, just_now);
        let ends =
            "{\"order-ends\": {\"name\": \"a.test\"}}\n{\"order-ends\": {\"name\": \"x\"}}\n";
        said(&mut agent, &mut theirs, ends).unwrap();
        ask(&mut agent, &renew("a.test"), 301, just_now);
        ask(&mut agent, &revoke("a.test"), 400, told);
        ask(&mut agent, &renew("a.test"), 401, just_now);
    }

    #[test]
    fn an_operator_is_answered_when_the_agent_has_written_down_what_is_asked_for() {
        let (mut agent, mut theirs) = agent();
        let revoke = ToAgent::Revoke { name: "a.test".into() };
        let noted =
            |how: &str| format!("{{\"noted\": {{\"name\": \"a.test\", \"how\": {how}}}}}\n");
        let operator = Asker { number: 7, whose: "user 7".into() };
        let mut answer = |agent: &mut Agent, how: &str| {
            let heard = said(agent, &mut theirs, &noted(how)).unwrap();
            heard.answer.map(|(asker, done)| {
                assert_eq!(asker, operator);
                done.map(|reply| reply.text().to_owned())
            })
        };
        assert_eq!(answer(&mut agent, "\"written\""), None, "it was not asked");
        let why = "{\"refused\": \"there is none\"}";
        for how in [why, why, "{\"unwritten\": \"it is full\"}"] {
            // One that was refused is not merged with the next.
            assert_eq!(agent.ask(&operator, &revoke, 1_000), Ok(None), "{how}");
            assert!(agent.is_waited_for(1_000 + COMMAND_MS_MAX - 1));
            assert!(!agent.is_waited_for(1_000 + COMMAND_MS_MAX));
            let done = answer(&mut agent, how).unwrap();
            match how == why {
                true => assert_eq!(done.unwrap_err(), "a.test: there is none"),
                false => assert!(done.unwrap().contains("before it is done: it is full")),
            }
            assert!(!agent.is_waited_for(1_000));
        }
    }

    #[test]
    fn what_was_asked_of_the_agent_before_is_not_asked_again() {
        let (mut agent, mut theirs) = agent();
        let before =
            "{\"asked-before\": {\"name\": \"b.test\", \"renewal\": 5, \"revocation\": null}}\n";
        said(&mut agent, &mut theirs, before).unwrap();
        let ask = |agent: &mut Agent, message: &ToAgent| {
            agent.ask(&Asker::default(), message, monotonic_ms())
        };
        assert!(ask(&mut agent, &ToAgent::Renew { name: "a.test".into() }).is_err());
        assert_eq!(ask(&mut agent, &ToAgent::Revoke { name: "a.test".into() }), Ok(None));
    }

    #[test]
    fn one_that_does_not_read_is_not_waited_for() {
        let (mut agent, _theirs) = agent();
        let name = "x".repeat(100_000);
        let tell = |agent: &mut Agent| agent.tell(&ToAgent::Renew { name: name.clone() });
        assert!((0..OUTPUT_BYTES_MAX / 100_000 + 10).any(|_| tell(&mut agent).is_err()));
        assert_eq!(agent.interest(), Interest::BOTH);
    }
}
