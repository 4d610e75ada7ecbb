//! A server whose service time is known, on a machine whose faults are: the lab's order of runs and
//! its comparison find a planted slowdown of 5 %, and seldom a difference between two copies of one
//! server. Time is virtual. `lab/null` has the same with real servers.

use flyball_lab::schedule::turns;
use flyball_stats::{Comparison, Finding, median};

/// How much a run is slower or faster by where the kernel has put its threads, at most.
const PLACEMENT: f64 = 0.03;

/// How much slower the machine is at the end of a campaign than at its begin.
const DRIFT: f64 = 0.10;

/// One request in so many waits for a neighbour that has taken the CPU, for up to this many times
/// the service.
const NEIGHBOUR_ONE_IN: u32 = 10;
const NEIGHBOUR_MOST: f64 = 5.0;

/// One run: requests one after the other, and the median of what each took.
fn run(service: f64, requests: usize, machine: f64, chance: &mut fastrand::Rng) -> f64 {
    let placement = 1.0 + PLACEMENT * (2.0 * chance.f64() - 1.0);
    let mut one = || {
        let waits = chance.u32(0..NEIGHBOUR_ONE_IN) == 0;
        let neighbour = if waits { NEIGHBOUR_MOST * chance.f64() } else { 0.0 };
        service * machine * placement * (1.0 + 0.02 * chance.f64() + neighbour)
    };
    median(&(0..requests).map(|_| one()).collect::<Vec<_>>())
}

/// Both servers in each block, in the order that chance decides, and what comes of it.
fn compared(services: [f64; 2], blocks: usize, seed: u64) -> Finding {
    let mut chance = fastrand::Rng::with_seed(!seed);
    let mut found = vec![[0.0; 2]; blocks];
    let turns = turns(services.len(), blocks, seed);
    let count = turns.len() as f64;
    for (at, turn) in turns.into_iter().enumerate() {
        let machine = 1.0 + DRIFT * at as f64 / count;
        found[turn.block][turn.cell] = run(services[turn.cell], 15, machine, &mut chance);
    }
    let pairs: Vec<(f64, f64)> = found.iter().map(|[left, right]| (*left, *right)).collect();
    let comparison = Comparison::of(&pairs, seed).expect("there are pairs");
    comparison.finding(comparison.p)
}

#[test]
fn a_planted_slowdown_of_five_percent_is_found() {
    let found = (0..100).filter(|seed| compared([1.05, 1.0], 10, *seed) == Finding::Greater);
    let found = found.count();
    assert!(found >= 90, "it is found {found} times in 100 trials");
}

#[test]
fn two_copies_of_one_server_seldom_differ() {
    let differ =
        |seed: &u64| matches!(compared([1.0; 2], 8, *seed), Finding::Greater | Finding::Less);
    let found = (0..200).filter(differ).count();
    // At a level of 5 % it is ten by chance.
    assert!((1..=20).contains(&found), "{found} trials of 200 differ");
}
