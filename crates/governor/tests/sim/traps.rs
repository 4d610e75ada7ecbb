//! Each trap that others have fallen into, as far as it concerns the rules themselves.

use flyball_governor::{
    Advice, Age, Arrive, Ask, Bounds, Entry, Gate, GateBounds, Head, Lever, Loop, Machine, Move,
    Ns, Orders, Pool, PoolBounds, Queue, Steering, SteeringBounds, Turn, Why, Window,
};

use crate::clients::{Clients, Load, MS, S};
use crate::engine::Sim;
use crate::policy::Policy;
use crate::workload::{Costs, Family, Machine as Stalls, Workload};

fn quiet(_: Ns, _: Move) {}

#[test]
fn trap_1_a_fixed_target_of_5_ms_sees_overload_below_saturation() {
    let mut fixed = Policy::governed();
    fixed.bounds.queue.target = Some(5 * MS);
    let overloads = |x: f64, policy: &Policy| {
        let workload = Workload { seconds: 120.0, ..Workload::new("5 ms") }.at(x);
        let is_one = |made: &Move| made.lever == Lever::Overload && made.to == 1;
        let report = Sim::run(&workload, policy);
        report.moves.iter().filter(|(_, made)| is_one(made)).count()
    };
    let (mut scaled_all, mut fixed_all) = (0, 0);
    for x in [0.5, 0.6, 0.7] {
        let (of_scaled, of_fixed) = (overloads(x, &Policy::governed()), overloads(x, &fixed));
        println!("at {x}: {of_scaled} overloads in two minutes, {of_fixed} with a fixed target");
        (scaled_all, fixed_all) = (scaled_all + of_scaled, fixed_all + of_fixed);
    }
    assert!(fixed_all >= 2 * scaled_all, "{scaled_all} {fixed_all}");
}

#[test]
fn trap_2_refusals_take_a_tenth_of_the_time_at_most() {
    // A refusal of 2 ms: at three times what the server can they would take all of its time.
    let clients = Clients { retries: 3, honours: false, ..Clients::default() };
    let costs = Costs { send: 1_500_000, read: 500_000, ..Costs::REAL };
    let family = Family::Beside;
    let workload = Workload { clients, costs, family, mean: 10 * MS, ..Workload::new("refusals") };
    let report = Sim::run(&workload.at(3.0), &Policy::governed());
    let share = report.refused as f64 * 2e-3 / 20.0;
    println!("{share:.3} of the time for {} refusals, {} cut", report.refused, report.cut);
    assert!(share <= 0.11 && report.cut > report.refused, "{share:.3}");
}

#[test]
fn trap_2_retry_after_is_spread_over_three_seconds() {
    let (mut gate, mut seen) = (Gate::with_seed(3), [0; 4]);
    let bounds = GateBounds { places: 1, ..GateBounds::default() };
    gate.ask(0, Ask::default(), &Orders::FREE, &bounds, &mut quiet);
    gate.ended(90 * MS, false, false);
    for n in 0..300 {
        let entry = gate.ask(n * S, Ask::default(), &Orders::FREE, &bounds, &mut quiet);
        if let Entry::Refuse { retry_after_s, .. } = entry {
            seen[retry_after_s as usize] += 1;
        }
    }
    assert!(seen[0] == 0 && seen[1..].iter().all(|n| *n > 60), "{seen:?}");
}

#[test]
fn trap_3_steady_time_outs_make_no_gate_grow() {
    let (mut gate, bounds) = (Gate::with_seed(1), GateBounds { places: 2, ..Default::default() });
    let mut let_in = Vec::new();
    for n in 0..200 {
        let now = n * 20 * S;
        let enter = |_| gate.ask(now, Ask::default(), &Orders::FREE, &bounds, &mut quiet);
        let entries: Vec<Entry> = (0..100).map(enter).collect();
        let count = |is: Entry| entries.iter().filter(|entry| **entry == is).count();
        assert_eq!(count(Entry::Now), 2);
        let waiting = count(Entry::Wait);
        let_in.push(waiting);
        for _ in 0..2 {
            gate.ended(10 * S, true, false);
        }
        for _ in 0..waiting {
            gate.left();
        }
    }
    // At first nothing is known of the service.
    assert!(let_in[20..].iter().all(|waiting| *waiting <= 4), "{let_in:?}");
}

#[test]
fn trap_3_what_fails_at_once_does_not_make_the_queue_look_short() {
    let (mut gate, bounds) = (Gate::with_seed(1), GateBounds { places: 1, ..Default::default() });
    gate.ended(50 * MS, false, false);
    for _ in 0..1_000 {
        gate.ended(MS, true, false);
    }
    let enter = |gate: &mut Gate| gate.ask(0, Ask::default(), &Orders::FREE, &bounds, &mut quiet);
    let entries: Vec<Entry> = (0..6).map(|_| enter(&mut gate)).collect();
    assert_eq!(entries[..3], [Entry::Now, Entry::Wait, Entry::Wait]);
    assert!(matches!(entries[3], Entry::Refuse { why: Why::QueueFull { .. }, .. }));
}

#[test]
fn trap_4_a_calm_server_is_not_probed() {
    let mut governor = Loop::from(0);
    let mut moves = 0;
    for n in 1..200_000 {
        let (took, accepted) = (200_000, 1);
        let turn = Turn { now: n * MS, took, accepted, worked_on: 2, ..Turn::default() };
        let orders = governor.turn(&turn, &Bounds::default(), &mut |_: Ns, _: Move| moves += 1);
        assert!(!orders.sample && !orders.look && orders.backlog.is_none(), "{orders:?}");
        assert_eq!(orders.arrive, Arrive::default());
    }
    assert_eq!(moves, 0);
}

#[test]
fn trap_5_a_bounded_work_phase_does_not_move_the_queue_into_the_loop() {
    let workload = Workload { mean: MS, ..Workload::new("carried") }.at(2.0);
    let mut pushes = Policy { backlog: 128, ..Policy::governed() };
    let pulled = Sim::run(&workload, &pushes).carried;
    pushes.bounds.phases.pulls = false;
    let pushed = Sim::run(&workload, &pushes).carried;
    println!("{pulled} carried over, with a fixed limit {pushed}");
    assert!(pulled <= 8 && pushed > 1_000, "{pulled} {pushed}");
}

#[test]
fn trap_6_a_queue_that_overflows_young_is_told_by_its_drops() {
    let mut governor = Loop::from(0);
    let (mut began, mut drops) = (None, 0);
    for n in 1..1_000u64 {
        let (now, took) = (n * MS, MS);
        let head = Head::Accepted(Age { queued: 4 * MS, silent: 4 * MS, half_closed: false });
        drops += 5;
        let queue = Some(Queue { length: 8, drops, is_full: true });
        let turn = Turn { now, took, accepted: 2, worked_on: 2, head, queue, ..Turn::default() };
        let mut note = |at: Ns, made: Move| {
            if let Why::Dropped { .. } = made.why {
                began.get_or_insert(at);
            }
        };
        governor.turn(&turn, &Bounds::default(), &mut note);
    }
    assert!(began.is_some_and(|at| at <= 300 * MS), "{began:?}");
}

fn pool(waited_p95: Ns, idle: u32) -> Pool {
    Pool { size: 4, jobs: 400, service: 100 * MS, waited_p95, idle }
}

const POOL: PoolBounds = PoolBounds { least: 1, most: 32, takes_cpu: true };

fn machine(idle_percent: u32) -> Machine {
    Machine { allowed_percent: 200, idle_percent, lasted: 10 * S, ..Machine::default() }
}

fn window(n: u64, machine: Machine, overloaded: &[bool]) -> Window<'_> {
    Window {
        from: n * 10 * S,
        to: (n + 1) * 10 * S,
        overloaded,
        finishing: false,
        helpers: None,
        threads: None,
        workers: 2,
        machine,
        advice: Advice::default(),
    }
}

const BOUNDS: SteeringBounds<'_> = SteeringBounds {
    frozen: false,
    pinned: &[],
    helpers: None,
    threads: Some(POOL),
    workers_most: Some(8),
};

#[test]
fn trap_7_a_neighbour_is_told_from_ones_own_quota() {
    let step = |waited_for_cpu: Ns, throttled: Ns| {
        let machine = Machine { waited_for_cpu, throttled, ..machine(40) };
        let threads = Some(pool(300 * MS, 0));
        let window = Window { threads, ..window(0, machine, &[false]) };
        Steering::default().step(&window, &BOUNDS)
    };
    assert!(step(3 * S, 3 * S).is_some_and(|made| made.lever == Lever::Threads && made.to == 6));
    assert_eq!(step(3 * S, 0), None);
}

#[test]
fn trap_8_stalls_by_a_quota_are_no_overload() {
    let machine = Stalls { quota: Some((100 * MS, 60 * MS)), ..Stalls::default() };
    let workload = Workload { mean: MS, machine, seconds: 120.0, ..Workload::new("stalls") };
    // 0.42 of a processor are seven tenths of what the quota leaves.
    let report = Sim::run(&workload.at(0.42), &Policy::governed());
    let is_one = |made: &Move| made.lever == Lever::Overload && made.to == 1;
    let overloads = report.moves.iter().filter(|(_, made)| is_one(made)).count();
    println!("{overloads} overloads, {} of level", report.levels().len());
    // There are 1,200 stalls; some of them fall into a burst.
    assert!(report.levels().is_empty() && report.drops == 0 && overloads <= 20, "{overloads}");
}

#[test]
fn trap_9_kept_connections_are_not_ended_by_load() {
    let clients = Clients { requests: 7.3, ..Clients::default() };
    let workload = Workload { clients, dynamic: 0.5, ..Workload::new("sessions") };
    let report = Sim::run(&workload.at(2.0), &Policy::governed());
    let sent_away = report.refused + report.cut + report.discarded_alive;
    assert!(sent_away == 0 && report.drops > 0, "{sent_away} sent away, {} drops", report.drops);
}

#[test]
fn trap_10_fin_is_not_gone() {
    let arrive = Arrive { gone_after: Some(S), ..Arrive::default() };
    let age = |silent: Ns, half_closed| Age { queued: 2 * S, silent, half_closed };
    assert!(!arrive.closes(age(S / 2, true)) && !arrive.closes(age(2 * S, false)));
    assert!(arrive.closes(age(2 * S, true)));
    let clients = Clients { half_closers: 1.0, ..Clients::default() };
    for x in [0.8, 2.0] {
        let workload = Workload { clients: clients.clone(), ..Workload::new("half") }.at(x);
        let report = Sim::run(&workload, &Policy::governed());
        assert_eq!(report.discarded_alive, 0, "at {x}");
    }
}

#[test]
fn trap_11_no_generation_begins_in_overload_or_while_one_ends() {
    let shrinks = |overloaded: &'static [bool], finishing: bool| {
        let mut steering = Steering::default();
        let machine = Machine { allowed_percent: 50, ..machine(0) };
        (0..30).find_map(|n| {
            let window = Window { finishing, ..window(n, machine, overloaded) };
            steering.step(&window, &BOUNDS).map(|made| (n, made.lever, made.from, made.to))
        })
    };
    assert_eq!(shrinks(&[false, false], false), Some((2, Lever::Workers, 2, 1)));
    assert_eq!(shrinks(&[false, true], false), None);
    assert_eq!(shrinks(&[false, false], true), None);
}

#[test]
fn trap_12_the_slow_part_rests_while_a_fast_one_moves() {
    let mut steering = Steering::default();
    let asks = |n, overloaded: &'static [bool]| {
        let threads = Some(pool(300 * MS, 0));
        let advice = Advice { disk_percent: Some(50), ..Advice::default() };
        Window { threads, advice, ..window(n, machine(40), overloaded) }
    };
    for n in 0..20 {
        assert_eq!(steering.step(&asks(n, &[true]), &BOUNDS), None);
    }
    assert!(steering.step(&asks(20, &[false]), &BOUNDS).is_some());
    // Levels are a second apart at least, and each is judged by ten windows of a gate.
    let load = Load::Spike(0.5, 3.0, 2.0, 18.0);
    let workload = Workload { load, ..Workload::new("levels") };
    let levels = Sim::run(&workload, &Policy::governed()).levels();
    assert!(levels.len() >= 4 && levels.windows(2).all(|two| two[1] - two[0] >= S), "{levels:?}");
}

#[test]
fn trap_13_the_worst_worker_counts_and_not_the_mean() {
    let threads = Some(pool(300 * MS, 0));
    let step = |overloaded: &[bool]| {
        let window = Window { threads, ..window(0, machine(40), overloaded) };
        Steering::default().step(&window, &BOUNDS)
    };
    assert!(step(&[false; 16]).is_some());
    let mut one = [false; 16];
    one[9] = true;
    assert_eq!(step(&one), None);
}

#[test]
fn trap_14_silent_connections_take_no_place_from_others() {
    let clients = Clients { silent: 3.0, ..Clients::default() };
    let workload = Workload { clients, ..Workload::new("silent") }.at(0.7);
    let honest = Sim::run(&Workload::new("honest").at(0.7), &Policy::governed()).goodput();
    let beside = Sim::run(&workload, &Policy::governed()).goodput();
    assert!(beside >= 0.97 * honest, "{beside:.0} of {honest:.0}");
    let deferred = Workload { deferred: true, ..workload };
    let beside = Sim::run(&deferred, &Policy::governed()).goodput();
    assert!(beside >= 0.97 * honest, "{beside:.0} of {honest:.0}");
}
