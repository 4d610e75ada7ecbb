//! What holds under any input.

use fastrand::Rng;
use flyball_governor::{Age, Bounds, Head, Lever, Loop, Mode, Move, Ns, Orders, Queue, Turn};

use crate::clients::{Load, MS, S};
use crate::engine::Sim;
use crate::policy::Policy;
use crate::workload::{Family, Sockets, Workload};

const SEEDS: u64 = 60;
const TURNS: usize = 4_000;

/// Turns that a loop might tell, and some that none would.
fn turns(seed: u64) -> Vec<Turn> {
    let mut rng = Rng::with_seed(seed);
    let (mut now, mut drops) = (rng.u64(..S), 0u32);
    let mut overloaded = false;
    let mut turn = || {
        if rng.u16(..400) == 0 {
            overloaded = !overloaded;
        }
        let (longest, oldest) = if overloaded { (20 * MS, 2 * S) } else { (2 * MS, 8 * MS) };
        let took = rng.u64(..longest);
        now += took + if overloaded { 0 } else { rng.u64(..5 * MS) };
        let worked_on = rng.u32(..40);
        let age = |rng: &mut Rng| rng.u64(..oldest) / (4 * MS) * (4 * MS);
        let queued = age(&mut rng);
        let silent = queued.min(age(&mut rng));
        let head = match rng.u8(..4) {
            0 if !overloaded => Head::Empty,
            0 => Head::Stuck,
            1 => Head::Unseen,
            _ => Head::Accepted(Age { queued, silent, half_closed: rng.bool() }),
        };
        drops = drops.wrapping_add(if overloaded { rng.u32(..3) } else { 0 });
        let length = rng.u32(..4_096);
        let queue = rng.bool().then_some(Queue { length, drops, is_full: overloaded });
        let accepted = rng.u32(..20);
        let (accept_took, shed) = (rng.u64(..=took), rng.u32(..=accepted) * u32::from(overloaded));
        Turn { now, took, accept_took, accepted, worked_on, shed, head, queue }
    };
    (0..TURNS).map(|_| turn()).collect()
}

/// The orders after each turn, and all moves.
fn drive(turns: &[Turn], bounds: impl Fn(usize) -> Bounds) -> (Vec<Orders>, Vec<(Ns, Move)>) {
    let mut moves = Vec::new();
    let mut note = |at: Ns, made: Move| moves.push((at, made));
    let mut governor = Loop::from(turns[0].now);
    let orders = turns
        .iter()
        .enumerate()
        .map(|(n, turn)| *governor.turn(turn, &bounds(n), &mut note))
        .collect();
    (orders, moves)
}

#[test]
fn levers_stay_within_what_the_operator_allows() {
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(!seed);
        let mut bounds = Bounds::default();
        bounds.queue.backlog = rng.u32(1..5_000);
        bounds.queue.backlog_least = rng.u32(1..64);
        bounds.phases.accept_most = rng.u32(1..512);
        let least = bounds.queue.backlog_least.min(bounds.queue.backlog);
        let (orders, moves) = drive(&turns(seed), |_| bounds);
        for orders in orders {
            assert!((1..=bounds.phases.accept_most).contains(&orders.work_on), "{orders:?}");
            assert!(orders.level.number() <= 4 && orders.accept_least <= 1);
            let backlog = orders.backlog.unwrap_or(least);
            assert!((least..=bounds.queue.backlog).contains(&backlog), "{orders:?}");
        }
        assert!(moves.iter().all(|(_, made)| made.from != made.to), "seed {seed}");
        assert!(moves.iter().any(|(_, made)| made.lever == Lever::Level), "seed {seed}");
    }
}

#[test]
fn the_same_input_has_the_same_output() {
    for seed in 0..SEEDS {
        let turns = turns(seed);
        let first = drive(&turns, |_| Bounds::default());
        assert!(first == drive(&turns, |_| Bounds::default()), "seed {seed}");
    }
}

#[test]
fn a_frozen_governor_moves_nothing() {
    for seed in 0..SEEDS {
        let frozen_at = TURNS / 2;
        let bounds = |n| Bounds { frozen: n >= frozen_at, ..Bounds::default() };
        let turns = turns(seed);
        let (orders, moves) = drive(&turns, bounds);
        let levers = |orders: &Orders| (orders.backlog, orders.level, orders.overloaded);
        let held = levers(&orders[frozen_at]);
        assert!(orders[frozen_at..].iter().all(|orders| levers(orders) == held), "seed {seed}");
        assert!(moves.iter().all(|(at, _)| *at < turns[frozen_at].now), "seed {seed}");
    }
}

#[test]
fn watching_decides_the_same_and_has_no_effect() {
    for seed in 0..SEEDS {
        let turns = turns(seed);
        let (_, made) = drive(&turns, |_| Bounds::default());
        let (orders, watched) =
            drive(&turns, |_| Bounds { mode: Mode::Watch, ..Bounds::default() });
        assert_eq!(made, watched, "seed {seed}");
        for orders in orders {
            let Orders { sample, look, busy_percent, .. } = orders;
            assert_eq!(orders, Orders { sample, look, busy_percent, ..Orders::FREE });
        }
    }
}

#[test]
fn switched_off_it_decides_nothing_and_asks_for_nothing() {
    let (orders, moves) = drive(&turns(1), |_| Bounds { mode: Mode::Off, ..Bounds::default() });
    assert!(moves.is_empty() && orders.iter().all(|orders| *orders == Orders::FREE));
}

/// Bounds, and a turn, with each time `k` times as long.
fn scaled(mut bounds: Bounds, mut turn: Turn, k: Ns) -> (Bounds, Turn) {
    let phases = &mut bounds.phases;
    (phases.accept_for, phases.work_for) =
        (phases.accept_for.map(|time| time * k), phases.work_for.map(|time| time * k));
    let queue = &mut bounds.queue;
    for time in [
        &mut queue.target_least,
        &mut queue.time,
        &mut queue.window,
        &mut queue.sample,
        &mut queue.calm,
        &mut queue.lasts,
        &mut queue.gone,
        &mut bounds.dwell,
        &mut turn.now,
        &mut turn.took,
        &mut turn.accept_took,
    ] {
        *time *= k;
    }
    if let Head::Accepted(age) = &mut turn.head {
        (age.queued, age.silent) = (age.queued * k, age.silent * k);
    }
    (bounds, turn)
}

#[test]
fn a_server_of_half_the_speed_decides_the_same_half_as_fast() {
    for seed in 0..SEEDS {
        let (turns, k) = (turns(seed), 2);
        let (orders, moves) = drive(&turns, |_| Bounds::default());
        let slow = turns.iter().map(|turn| scaled(Bounds::default(), *turn, k).1);
        let slow: Vec<Turn> = slow.collect();
        let bounds = scaled(Bounds::default(), Turn::default(), k).0;
        let (slow_orders, slow_moves) = drive(&slow, |_| bounds);
        for (fast, slow) in orders.iter().zip(&slow_orders) {
            let levers = |orders: &Orders| {
                (orders.work_on, orders.backlog, orders.level, orders.sample, orders.look)
            };
            assert_eq!(levers(fast), levers(slow), "seed {seed}");
        }
        let told = |moves: &[(Ns, Move)], k: Ns| -> Vec<(Ns, Lever, u64)> {
            moves.iter().map(|(at, made)| (at * k, made.lever, made.to)).collect()
        };
        assert_eq!(told(&moves, k), told(&slow_moves, 1), "seed {seed}");
    }
}

#[test]
fn at_most_six_levels_change_in_a_minute() {
    for seed in 0..SEEDS {
        let (_, moves) = drive(&turns(seed), |_| Bounds::default());
        let is_level = |(_, made): &&(Ns, Move)| made.lever == Lever::Level;
        let at: Vec<Ns> = moves.iter().filter(is_level).map(|(at, _)| *at).collect();
        let closest = at.windows(7).map(|seven| seven[6] - seven[0]).min();
        assert!(closest.is_none_or(|apart| apart >= 60 * S), "seed {seed}: {closest:?}");
    }
}

#[test]
fn times_that_go_back_or_end_and_sums_beyond_all_do_not_panic() {
    let mut rng = Rng::with_seed(5);
    let mut governor = Loop::from(Ns::MAX / 2);
    for _ in 0..20_000 {
        let mut any = || [0, 1, rng.u64(..), Ns::MAX, S][rng.usize(..5)];
        let age = Age { queued: any(), silent: any(), half_closed: true };
        let turn = Turn {
            now: any(),
            took: any(),
            accept_took: any(),
            accepted: any() as u32,
            worked_on: any() as u32,
            shed: any() as u32,
            head: Head::Accepted(age),
            queue: Some(Queue { length: any() as u32, drops: any() as u32, is_full: true }),
        };
        let orders = *governor.turn(&turn, &Bounds::default(), &mut |_: Ns, _: Move| {});
        assert!(orders.work_on >= 1);
    }
}

#[test]
fn within_two_seconds_of_the_end_of_any_input_all_is_normal() {
    for seed in 0..SEEDS {
        let mut turns = turns(seed);
        let end = turns[TURNS - 1].now;
        turns.extend((1..400).map(|n| Turn {
            now: end + n * 5 * MS,
            took: MS,
            accepted: 1,
            worked_on: 1,
            head: Head::Accepted(Age::default()),
            ..Turn::default()
        }));
        let (orders, _) = drive(&turns, |_| Bounds::default());
        let last = orders[orders.len() - 1];
        assert!(!last.overloaded && last.level.number() == 0, "seed {seed}: {last:?}");
        assert_eq!(last.arrive, Orders::FREE.arrive);
    }
}

#[test]
fn soon_after_the_end_of_any_overload_all_is_normal() {
    for x in [1.2, 3.0] {
        let load = Load::Spike(0.3, x, 5.0, 15.0);
        for family in [Family::Loops(1, Sockets::Own), Family::Threads(8, true)] {
            let workload = Workload { load: load.clone(), family, ..Workload::new("wind-up") };
            let report = Sim::run(&workload, &Policy::governed());
            // Clients whose SYN was dropped come again a second later.
            let last = report.moves.iter().rfind(|(_, made)| made.lever != Lever::Backlog);
            let (at, made) = last.expect("there was an overload");
            assert!(made.to == 0 && *at <= 18 * S, "{family:?} {x}: {made} at {at}");
        }
    }
}

#[test]
fn one_is_accepted_in_every_second_turn_at_least() {
    for x in [0.9, 2.0] {
        for family in [Family::Loops(1, Sockets::Own), Family::Beside, Family::Tux] {
            let workload = Workload { family, dynamic: 0.5, ..Workload::new("starve") }.at(x);
            let starved = Sim::run(&workload, &Policy::governed()).starved;
            assert!(starved <= 1, "{family:?} at {x}: {starved} turns in a row");
        }
    }
}

#[test]
fn a_run_is_the_same_each_time_and_watching_changes_no_answer() {
    let workload = Workload::new("again").at(1.5);
    let run = |policy: &Policy| {
        let report = Sim::run(&workload, policy);
        (report.orders, report.good, report.drops, report.latencies)
    };
    assert!(run(&Policy::governed()) == run(&Policy::governed()));
    let mut watched = Policy::governed();
    (watched.bounds.mode, watched.gate.mode) = (Mode::Watch, Mode::Watch);
    watched.layers = watched.layers.map(|layers| crate::policy::Layers { phases: false, ..layers });
    let (_, good, drops, latencies) = run(&watched);
    let (_, free, free_drops, free_latencies) = run(&Policy::default_static());
    // Asking for ages costs a third of a microsecond.
    let near = |a: u64, b: u64| a.abs_diff(b) <= 2;
    assert!(near(good[1], free[1]) && near(drops, free_drops), "{good:?} {free:?}");
    assert!(latencies[1].len().abs_diff(free_latencies[1].len()) <= 2);
}

#[test]
#[ignore = "full tier"]
fn a_turn_costs_no_more_than_reading_the_clock_some_times() {
    let (mut governor, bounds) = (Loop::from(0), Bounds::default());
    let mut now = 0;
    let mut batch = || {
        let start = std::time::Instant::now();
        for _ in 0..10_000 {
            now += 100_000;
            let turn = Turn { now, took: 60_000, accepted: 1, worked_on: 2, ..Turn::default() };
            std::hint::black_box(governor.turn(&turn, &bounds, &mut |_: Ns, _: Move| {}));
        }
        start.elapsed().as_nanos() as f64 / 1e4
    };
    let least = (0..100).map(|_| batch()).fold(f64::MAX, f64::min);
    println!("{least:.1} ns for a turn, {} bytes", size_of::<Loop>());
    // Sixty is the aim.
    assert!(least <= 600.0, "{least:.1} ns");
}
