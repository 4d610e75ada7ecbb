//! A failing case, made small: what can be left out without its failing less is left out.

use super::client::Ending;
use super::schedule::Schedule;
use super::secure::Speaks;
use super::{Case, Failure};

/// Most runs that are spent on it, and most steps.
const RUNS_MAX: usize = 3_000;
const STEPS_MAX: u64 = 5_000_000;

/// Seeds that are tried where something is left out.
const SEEDS: u64 = 8;

/// The smallest case that fails which is found from this one by leaving out one thing after the
/// other, and why it fails.
pub(super) fn shrink(case: &Case, failure: Failure) -> (Case, Failure) {
    let (mut least, mut why) = (case.clone(), failure);
    let (mut left, mut steps) = (RUNS_MAX, 0);
    'smaller: loop {
        for one in simpler(&least, why.steps) {
            if left == 0 || steps > STEPS_MAX {
                break 'smaller;
            }
            left -= 1;
            match one.run() {
                Ok(taken) => steps += taken,
                Err(failure) => {
                    steps += failure.steps;
                    (least, why) = (one, failure);
                    continue 'smaller;
                }
            }
        }
        break;
    }
    (least, why)
}

/// Cases that are simpler by one thing, the greatest differences first.
fn simpler(case: &Case, failed_after: u64) -> Vec<Case> {
    let mut all = Vec::new();
    let mut change = |change: &dyn Fn(&mut Case)| {
        let mut one = case.clone();
        change(&mut one);
        if one != *case {
            all.push(one);
        }
    };
    for (at, dialogue) in case.dialogues.iter().enumerate() {
        // With less to do another schedule may be needed.
        for other in 0..SEEDS {
            if case.dialogues.len() > 1 {
                change(&|one| {
                    one.seed ^= other;
                    one.dialogues.remove(at);
                });
            }
            for request in 0..dialogue.requests.len() {
                if dialogue.requests.len() > 1 {
                    change(&|one| {
                        one.seed ^= other;
                        one.dialogues[at].requests.remove(request);
                    });
                }
            }
        }
        change(&|one| one.dialogues[at].ending = Ending::Patient);
    }
    change(&|one| one.speaks = Speaks::Clear);
    let none = Schedule::UNDISTURBED;
    change(&|one| one.schedule.jumps = false);
    change(&|one| one.schedule.leaves = 0);
    change(&|one| one.schedule.ends = false);
    change(&|one| one.schedule.fails = 0);
    change(&|one| one.schedule.late = false);
    change(&|one| one.schedule.slow = false);
    change(&|one| one.schedule.spurious = 0);
    change(&|one| one.schedule.preempts = 0);
    change(&|one| one.schedule.send_max = 0);
    change(&|one| one.schedule.take_max = 0);
    change(&|one| one.schedule.inbound_max = none.inbound_max);
    change(&|one| one.schedule.outbound_max = none.outbound_max);
    // The rest of the run is calm.
    let until = case.schedule.calm_after.min(failed_after);
    for calm_after in [until / 2, until - until / 4, until - until / 16, until.saturating_sub(1)] {
        if calm_after > 0 && calm_after < case.schedule.calm_after {
            change(&|one| one.schedule.calm_after = calm_after);
        }
    }
    all
}
