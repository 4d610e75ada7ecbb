//! Whole servers, simulated: architectures on a kernel whose clients, disk and clock follow a
//! seeded schedule. Bytes are split, delayed and cut at every place, plans finish late, out of
//! order or not at all, and time jumps; every answer is compared with that of an undisturbed run.
//!
//! `FLYBALL_SIMULATED_STEPS=<steps>` takes more of them. `FLYBALL_SEED=<seed>` begins there, and
//! alone it runs that one case and tells each step of its smallest failure.

mod client;
mod disk;
mod faults;
pub(crate) mod kernel;
mod line;
mod oracle;
mod random;
mod responder;
pub(crate) mod ring;
mod schedule;
mod secure;
mod servers;
mod shrink;
pub(crate) mod site;
mod watch;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use client::{Dialogue, Ending, dialogue};
use faults::Fault;
use oracle::Answers;
use random::Random;
use schedule::Schedule;
use secure::Speaks;
use servers::Way;
use shrink::shrink;
use world::{World, within};

/// Steps of the fast tier.
const STEPS: u64 = 1_000_000;

/// Of so many cases one asks the servers behind this one by SCGI.
const SCGI_ONE_IN: usize = 5;

/// Most clients of a run.
const CLIENTS_MAX: usize = 4;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Case {
    seed: u64,
    way: Way,
    schedule: Schedule,
    dialogues: Vec<Dialogue>,
    fault: Fault,
    speaks: Speaks,
    /// Each step is told.
    is_told: bool,
}

/// Why a run failed.
#[derive(Debug)]
struct Failure {
    why: String,
    /// After so many steps.
    steps: u64,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {} steps {}", self.steps, self.why)
    }
}

impl Case {
    /// That of a seed.
    fn draw(seed: u64) -> Case {
        let random = &mut Random::of(seed);
        let way = random.pick(&Way::ALL);
        let harsh = random.one_in(2);
        let mut schedule = Schedule::draw(random, harsh);
        schedule.ends &= way.ends();
        let mut dialogues: Vec<Dialogue> =
            (0..1 + random.below(CLIENTS_MAX)).map(|_| dialogue(random)).collect();
        // Of its own, so that all else stays as it was before there was any.
        let apart = &mut Random::of(!seed);
        let speaks = Speaks::draw(apart);
        if apart.one_in(SCGI_ONE_IN) {
            dialogues.iter_mut().for_each(Dialogue::ask_by_scgi);
        }
        Case { seed, way, schedule, dialogues, fault: Fault::None, speaks, is_told: false }
    }

    /// Runs it; how many steps it took.
    fn run(&self) -> Result<u64, Failure> {
        world::hush();
        let answers = oracle::answers(&self.dialogues, self.schedule.fails > 0);
        let run = catch_unwind(AssertUnwindSafe(|| self.simulate(&answers)));
        run.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let why = text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default();
            let Some(world) = world::take() else { return Err(Failure { why, steps: 0 }) };
            let wrong = answers
                .iter()
                .zip(&world.lines)
                .find_map(|(answers, line)| answers.check_part(&line.client, &self.schedule).err());
            Err(Failure { why: wrong.unwrap_or(why), steps: world.steps })
        })
    }

    fn simulate(&self, answers: &[Answers]) -> Result<u64, Failure> {
        // An answer that is the last says so, and is longer.
        let len = |one: &Answers| if self.schedule.ends { usize::MAX } else { one.len() };
        let expected = answers.iter().map(len);
        let clients: Vec<_> = self.dialogues.iter().zip(expected).collect();
        let mut random = Random::of(self.seed);
        let of_world = Random::of(random.next());
        let mut world = World::new(of_world, self.schedule, self.fault, &clients);
        world.is_told = self.is_told;
        let fair = self.schedule.is_patient();
        if self.speaks != Speaks::Clear {
            world.secure();
        }
        let tls = self.speaks.config();
        let ((), world) = within(world, || self.way.serve(&mut random, fair, tls));
        for (answers, line) in answers.iter().zip(&world.lines) {
            let checked = answers.check(&line.client, &self.schedule);
            checked.map_err(|why| Failure { why, steps: world.steps })?;
        }
        Ok(world.steps)
    }
}

/// The number in a variable of the environment.
fn told(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs a case; one that fails is made small, and told.
fn run(case: &Case) -> u64 {
    let failure = match case.run() {
        Ok(steps) => return steps,
        Err(failure) => failure,
    };
    let first = failure.to_string();
    let (least, failure) = shrink(case, failure);
    if told("FLYBALL_SEED").is_some() {
        let _ = Case { is_told: true, ..least.clone() }.run();
    }
    panic!("FLYBALL_SEED={}: {first}\nMade small, {failure}\n{least:#?}", case.seed);
}

#[test]
fn disturbed_clients_get_the_answers_of_undisturbed_ones() {
    let (seed, most) = (told("FLYBALL_SEED"), told("FLYBALL_SIMULATED_STEPS"));
    let first = seed.unwrap_or(0);
    let mut left = match (seed, most) {
        (Some(_), None) => 1,
        (_, most) => most.unwrap_or(STEPS),
    };
    for seed in first.. {
        left = left.saturating_sub(run(&Case::draw(seed)));
        if left == 0 {
            return println!("{} cases", seed + 1 - first);
        }
    }
}

/// Cases in which a planted fault must show.
const CASES_MAX: usize = 2_000;

/// The first case in which a planted fault is found, made small.
fn found(fault: Fault, may_show: impl Fn(&Case) -> bool) -> (Case, Failure) {
    let speaks = Speaks::Clear;
    let cases = (0..).map(|seed| Case { fault, speaks, ..Case::draw(seed) });
    for case in cases.filter(may_show).take(CASES_MAX) {
        if let Err(failure) = case.run() {
            let (least, failure) = shrink(&case, failure);
            let sound = Case { fault: Fault::None, ..least.clone() };
            if let Err(failure) = sound.run() {
                panic!("without the fault it fails as well, {failure}\n{sound:#?}");
            }
            return (least, failure);
        }
    }
    panic!("{fault:?} was not found");
}

#[test]
fn a_wake_up_that_is_lost_is_found_however_it_is_waited_for() {
    for way in Way::ALL.into_iter().filter(|way| way.is_woken()) {
        let (case, failure) = found(Fault::LostWakeUp, |case| case.way == way);
        assert!(failure.why.contains("sleeps for ever"), "{failure}");
        assert!(case.dialogues.len() <= 2, "{case:?}");
    }
}

#[test]
fn an_answer_to_the_wrong_exchange_is_found() {
    let (case, failure) = found(Fault::WrongExchange, |case| case.way.has_helpers());
    assert!(failure.why.contains("a client got"), "{failure}");
    assert!(case.dialogues.len() <= 3, "{case:?}");
}

#[test]
fn a_plan_that_outlives_its_connection_is_found() {
    let may_show = |case: &Case| case.way.has_helpers() && case.schedule.slow;
    let (case, failure) = found(Fault::OutlivesConnection, may_show);
    assert!(failure.why.contains("a client got"), "{failure}");
    assert!(case.dialogues.len() <= 3, "{case:?}");
}

#[test]
fn a_buffer_that_is_given_back_while_it_is_sent_is_found() {
    let (case, failure) = found(Fault::GivenBackEarly, |case| case.way == Way::Ring);
    assert!(failure.why.contains("a client got"), "{failure}");
    assert_eq!(case.dialogues.len(), 1, "{case:?}");
}

#[test]
fn memory_of_a_link_that_is_given_back_early_is_found() {
    // Another responder says something else to what it does not understand.
    let by_scgi = |case: &Case| case.dialogues.iter().any(Dialogue::asks_by_scgi);
    let may_show = |case: &Case| case.way == Way::Ring && !by_scgi(case);
    let (case, failure) = found(Fault::LinkGivenBackEarly, may_show);
    // The server does not understand what it gets, or the client gets something else.
    let shows = ["a client got", "a record of kind", "a good link is closed"];
    assert!(shows.iter().any(|why| failure.why.contains(why)), "{failure}");
    assert_eq!(case.dialogues.len(), 1, "{case:?}");
}

#[test]
fn a_good_link_that_is_closed_is_found() {
    // A ring receives on it, and is told of nothing that it has not received.
    let is_told = |case: &Case| case.way.watches_links() && case.way != Way::Ring;
    let may_show = |case: &Case| is_told(case) && case.schedule.is_fair();
    let (case, failure) = found(Fault::ClosesGoodLink, may_show);
    assert!(failure.why.contains("a good link is closed"), "{failure}");
    assert_eq!(case.dialogues.len(), 1, "{case:?}");
}

/// Runs this dialogue in each way that watches links at rest, by several schedules.
fn ask_for_links(request: &str, schedule: Schedule) {
    for way in Way::ALL.into_iter().filter(|way| way.watches_links()) {
        for seed in 0..50 {
            let requests = vec![request.as_bytes().to_vec()];
            let dialogues = vec![Dialogue { requests, ending: Ending::Patient }];
            let fault = Fault::None;
            let speaks = Speaks::Clear;
            run(&Case { seed, way, schedule, dialogues, fault, speaks, is_told: false });
        }
    }
}

#[test]
fn a_connection_that_ends_with_its_answer_gives_its_link_back() {
    let parts = Schedule { is_undisturbed: false, send_max: 50, ..Schedule::UNDISTURBED };
    ask_for_links("GET /app?300 HTTP/1.0\r\nHost: a\r\n\r\n", parts);
}

#[test]
fn a_client_that_was_slower_than_the_server_gives_the_link_back() {
    let slow = Schedule { is_undisturbed: false, outbound_max: 300, ..Schedule::UNDISTURBED };
    ask_for_links("GET /app?9000 HTTP/1.1\r\nHost: a\r\n\r\n", slow);
    let large = "GET /large.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    ask_for_links(&format!("{large}GET /app?300 HTTP/1.1\r\nHost: a\r\n\r\n"), slow);
}

#[test]
fn a_server_says_the_same_by_scgi_as_by_fastcgi() {
    let asked = |path: &str| {
        let requests = vec![format!("GET {path}/x?300 HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()];
        oracle::answers(&[Dialogue { requests, ending: Ending::Patient }], false)[0].len()
    };
    assert!(asked(site::SCGI) > 300);
    assert_eq!(asked(site::SCGI), asked(site::FASTCGI));
    let parts = Schedule { is_undisturbed: false, take_max: 100, ..Schedule::UNDISTURBED };
    ask_for_links("GET /cgi/x?9000 HTTP/1.1\r\nHost: a\r\n\r\n", parts);
}

/// Clients that shake hands at once: more than one turn answers.
const CROWD: usize = 12;

#[test]
fn more_hellos_than_one_turn_answers_are_answered_in_those_that_follow() {
    let requests = vec![b"GET /small.txt HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()];
    let schedule = Schedule { is_undisturbed: false, preempts: 1, ..Schedule::UNDISTURBED };
    for (speaks, seed, way) in secure_cases() {
        let dialogue = Dialogue { requests: requests.clone(), ending: Ending::Patient };
        let (fault, dialogues) = (Fault::None, vec![dialogue; CROWD]);
        run(&Case { seed, way, schedule, dialogues, fault, speaks, is_told: false });
    }
}

/// A disk that is late has each of them without the buffers of its request when its answer comes.
#[test]
fn answers_over_tls_are_sealed_although_others_have_the_buffers_of_their_requests() {
    let requests = vec![b"GET /dir/ HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()];
    let schedule = Schedule { is_undisturbed: false, late: true, ..Schedule::UNDISTURBED };
    for (speaks, seed, way) in secure_cases() {
        let dialogue = Dialogue { requests: requests.clone(), ending: Ending::Early };
        let (fault, dialogues) = (Fault::None, vec![dialogue; CLIENTS_MAX]);
        run(&Case { seed, way, schedule, dialogues, fault, speaks, is_told: false });
    }
}

/// Some for each way to wait, by quick keys and by slow ones.
fn secure_cases() -> impl Iterator<Item = (Speaks, u64, Way)> {
    let seeds = |speaks| (0..8).flat_map(move |seed| Way::ALL.map(|way| (speaks, seed, way)));
    [Speaks::Tls, Speaks::SlowTls].into_iter().flat_map(seeds)
}

/// Seeds by which a fault was found: a loop that turned in vain while a link was hung up and its
/// client slow; an answer that was lost with a socket in which its client's end lay unread; and a
/// client's end that was told while its connection had no use for it, and not again.
const FOUND_BY: [u64; 3] = [22_535, 40, 292];

#[test]
fn seeds_that_have_found_a_fault_find_none() {
    for seed in FOUND_BY {
        run(&Case::draw(seed));
    }
}
