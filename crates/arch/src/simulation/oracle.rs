//! Which answers are right: those that an undisturbed server gives to the same requests, one by
//! one.

use super::client::{Client, Dialogue};
use super::faults::Fault;
use super::random::Random;
use super::schedule::Schedule;
use super::servers::Way;
use super::world::{World, within};

/// How an answer begins that a server gives to a client whose time is up.
const TOO_LATE: &str = "HTTP/1.1 408 ";

/// How answers begin where a part of the work has failed, or the server behind this one has left.
const BROKEN: [&str; 4] = ["HTTP/1.1 500 ", "HTTP/1.1 502 ", "HTTP/1.1 503 ", "HTTP/1.1 504 "];

/// What a client may get before that.
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

/// The right answers to one dialogue.
#[derive(Debug)]
pub(super) struct Answers {
    /// To each request.
    one_by_one: Vec<Vec<u8>>,
    /// To each request whose work fails, where that may be.
    failed: Vec<Vec<u8>>,
}

impl Answers {
    pub(super) fn len(&self) -> usize {
        self.one_by_one.iter().map(Vec::len).sum()
    }

    /// Whether what a client has received so far may be right.
    pub(super) fn check_part(&self, client: &Client, schedule: &Schedule) -> Result<(), String> {
        match schedule.is_fair() && self.one_by_one.concat().starts_with(&client.received) {
            true => Ok(()),
            false => self.check(client, schedule),
        }
    }

    /// Whether what a client has received is right.
    pub(super) fn check(&self, client: &Client, schedule: &Schedule) -> Result<(), String> {
        let got = &client.received[..];
        let right = self.one_by_one.concat();
        let is_right = match schedule.is_fair() {
            true => got == right,
            false if schedule.ends => self.are_whole(got),
            false => self.may_be(got, 0, schedule.is_late()),
        };
        if is_right {
            return Ok(());
        }
        let same = got.iter().zip(&right).take_while(|(one, other)| one == other).count();
        let shown = |bytes: &[u8]| {
            let from = same.saturating_sub(20).min(bytes.len());
            String::from_utf8_lossy(&bytes[from..bytes.len().min(same + 120)]).into_owned()
        };
        Err(format!(
            "a client got {} bytes instead of {}; from byte {same} on {:?} instead of {:?}",
            got.len(),
            right.len(),
            shown(got),
            shown(&right),
        ))
    }

    /// Whether these are whole answers, to the first requests: the last says that it is that.
    fn are_whole(&self, got: &[u8]) -> bool {
        let got = without_ends(got);
        let mut right = Vec::new();
        let mut ends = self.one_by_one.iter().map(|answer| {
            right.extend(without_ends(answer));
            right == got
        });
        got.is_empty() || ends.any(|is_end| is_end)
    }

    /// Whether these are the answers from request `at` on, as far as they go.
    fn may_be(&self, got: &[u8], at: usize, is_late: bool) -> bool {
        let Some(right) = self.one_by_one.get(at) else { return got.is_empty() };
        let goes_on = |answer: &Vec<u8>| match got.strip_prefix(&answer[..]) {
            Some(rest) => self.may_be(rest, at + 1, is_late),
            None => answer.starts_with(got),
        };
        let begun = got.strip_prefix(CONTINUE.as_bytes()).unwrap_or(got);
        let is_part = |late: &str| late.as_bytes().iter().zip(begun).all(|(one, same)| one == same);
        let gives_up =
            || is_late && is_part(TOO_LATE) || BROKEN.iter().any(|broken| is_part(broken));
        goes_on(right) || self.failed.get(at).is_some_and(goes_on) || gives_up()
    }
}

/// Answers without what they say of the end of their connection.
fn without_ends(answers: &[u8]) -> Vec<u8> {
    let mut rest = Vec::from(answers);
    for field in ["Connection: close\r\n", "Connection: keep-alive\r\n"] {
        while let Some(at) = rest.windows(field.len()).position(|part| part == field.as_bytes()) {
            rest.drain(at..at + field.len());
        }
    }
    rest
}

/// The answers to these dialogues.
pub(super) fn answers(dialogues: &[Dialogue], may_fail: bool) -> Vec<Answers> {
    let right = undisturbed(dialogues, 0);
    let mut answers: Vec<Answers> =
        right.into_iter().map(|one_by_one| Answers { one_by_one, failed: Vec::new() }).collect();
    if may_fail {
        for (answers, dialogue) in answers.iter_mut().zip(dialogues) {
            let alone = |request: &Vec<u8>| Dialogue {
                requests: vec![request.clone()],
                ending: dialogue.ending,
            };
            let alone: Vec<Dialogue> = dialogue.requests.iter().map(alone).collect();
            answers.failed = undisturbed(&alone, 1).into_iter().map(|one| one.concat()).collect();
        }
    }
    answers
}

fn undisturbed(dialogues: &[Dialogue], fails: usize) -> Vec<Vec<Vec<u8>>> {
    let schedule = Schedule { fails, ..Schedule::UNDISTURBED };
    let clients: Vec<_> = dialogues.iter().map(|dialogue| (dialogue, usize::MAX)).collect();
    let world = World::new(Random::of(0), schedule, Fault::None, &clients);
    let ((), world) = within(world, || Way::Level.serve(&mut Random::of(0), true, None));
    let lines = world.lines.into_iter().filter(|line| line.responder.is_none());
    lines.map(|line| split(line.client)).collect()
}

/// What came after each request; what came after the last goes with it.
fn split(client: Client) -> Vec<Vec<u8>> {
    let Client { received, ends, starts, .. } = client;
    let mut from = 0;
    let mut answers = Vec::new();
    for at in 0..starts.len() {
        let until = if at + 1 == starts.len() {
            received.len()
        } else {
            ends.get(at).copied().unwrap_or(received.len())
        };
        answers.push(received[from..until].to_vec());
        from = until;
    }
    answers
}
