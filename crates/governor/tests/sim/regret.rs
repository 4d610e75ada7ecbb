//! Workloads of all kinds under the rules, beside the best static setting of each.

use fastrand::Rng;
use flyball_governor::Ns;

use crate::clients::{Clients, Load, MS, Spread};
use crate::engine::Sim;
use crate::policy::{Layers, Policy};
use crate::report::Report;
use crate::workload::{Costs, Family, Machine, Sockets, Workload};

/// How many workloads the rules were designed by, and of which seed.
const DESIGNED: (usize, u64) = (24, 7);

/// Those that they were not designed by.
const HELD_OUT: (usize, u64) = (16, 8);

/// How many requests a run has, about.
const REQUESTS: f64 = 4_000.0;

/// Draws `n` values of one dimension of a Latin hypercube: one in each of `n` equal parts.
fn dimension(n: usize, rng: &mut Rng) -> Vec<f64> {
    let mut parts: Vec<f64> = (0..n).map(|part| (part as f64 + rng.f64()) / n as f64).collect();
    rng.shuffle(&mut parts);
    parts
}

fn of<T: Clone>(choices: &[T], at: f64) -> T {
    choices[((at * choices.len() as f64) as usize).min(choices.len() - 1)].clone()
}

fn load(x: f64, shape: f64) -> Load {
    const STEPS: [f64; 4] = [0.5, 1.2, 0.8, 2.0];
    match (shape * 7.0) as u32 {
        0..=2 => Load::Steady(x),
        5 => Load::Steps(&STEPS, 4.0),
        3 => Load::Bursts(0.5 * x, 1.5 * x, 0.5),
        4 => Load::Sine(x, 0.5 * x, 10.0),
        _ => Load::Spike(0.5 * x.min(1.4), 1.5 * x, 8.0, 14.0),
    }
}

/// Work alone by how long it takes and how much comes of it, and closed loops.
fn grid() -> Vec<Workload> {
    let mut all: Vec<Workload> = Vec::new();
    for mean in [MS, 5 * MS, 50 * MS] {
        for x in [0.7, 1.5, 3.0] {
            let name = format!("{} ms at {x}", mean / MS);
            all.push(Workload { mean, ..Workload::new(name) }.at(x));
        }
    }
    for family in [Family::Loops(1, Sockets::Own), Family::Beside] {
        let name = format!("{family:?} closed loop of 300");
        let load = Load::Closed(300, 200.0);
        all.push(Workload { family, load, dynamic: 0.5, mean: 5 * MS, ..Workload::new(name) });
    }
    all
}

const FAMILIES: [Family; 9] = [
    Family::Loops(1, Sockets::Own),
    Family::Loops(1, Sockets::Own),
    Family::Loops(2, Sockets::Own),
    Family::Loops(2, Sockets::Shared),
    Family::Beside,
    Family::Beside,
    Family::Disk(2),
    Family::Threads(8, true),
    Family::Threads(8, false),
];

/// One of a Latin hypercube, where each dimension is 0 to 1.
fn of_hypercube(mut draw: impl FnMut() -> f64) -> Workload {
    let family = of(&FAMILIES, draw());
    let x = 0.3 * 10f64.powf(draw());
    let mean: Ns = of(&[MS, 5 * MS, 20 * MS, 50 * MS], draw());
    let dynamic = of(&[0.1, 0.1, 0.5, 1.0], draw());
    let spreads = [Spread::Fixed, Spread::Exponential, Spread::Bimodal, Spread::Pareto];
    let spread = of(&spreads, draw());
    let patience = of(&[500 * MS, 2_000 * MS, 2_000 * MS, 10_000 * MS], draw());
    let retries = draw();
    let is_threads = matches!(family, Family::Threads(..));
    let requests = of(&[1.0, 1.0, 7.3, 50.0], draw());
    let clients = Clients {
        patience,
        retries: if retries < 0.5 { 0 } else { 3 },
        backs_off: retries > 0.75,
        honours: retries > 0.6,
        // Threads that hold connections which think are another subject: room.
        requests: if is_threads { 1.0 } else { requests },
        half_closers: if draw() < 0.25 { 0.05 } else { 0.0 },
        silent: if draw() < 0.2 { 0.1 } else { 0.0 },
        ..Clients::default()
    };
    let load = load(x, draw());
    let (machine, stalls) = match (draw() * 5.0) as u32 {
        0 => (Machine { quota: Some((100 * MS, 50 * MS)), ..Machine::default() }, "quota"),
        1 => (Machine { steal: Some((10 * MS, 500 * MS)), ..Machine::default() }, "steal"),
        _ => (Machine::default(), ""),
    };
    let cpus = if let Family::Loops(loops, _) = family { loops as f64 } else { 1.0 };
    let costs = Costs::REAL.times(10);
    let (ms, percent) = (mean / MS, dynamic * 100.0);
    let name = format!("{family:?} {percent:.0}% {ms} ms {spread:?} x{x:.1} {stalls}");
    let of = Workload { load, clients, dynamic, mean, spread, family, ..Workload::new(name) };
    Workload { costs, cpus, machine, ..of }
}

/// A Latin hypercube of so many from a seed, after `all`.
fn workloads(mut all: Vec<Workload>, (count, seed): (usize, u64)) -> Vec<Workload> {
    let rest = count - all.len();
    let mut rng = Rng::with_seed(seed);
    let drawn: Vec<Vec<f64>> = (0..12).map(|_| dimension(rest, &mut rng)).collect();
    all.extend((0..rest).map(|n| {
        let mut values = drawn.iter().map(|dimension| dimension[n]);
        of_hypercube(|| values.next().expect("there are enough dimensions"))
    }));
    for (n, workload) in all.iter_mut().enumerate() {
        workload.seed = seed * 1_000 + n as u64;
        workload.coding = workload.costs.send;
        if workload.machine.quota.is_some() {
            workload.load = scaled(&workload.load, 0.5);
        }
        let most = workload.load.most();
        let per_s = workload.can() * if most > 0.0 { most } else { 1.0 };
        workload.seconds = (REQUESTS / per_s).clamp(12.0, 600.0);
        workload.warm = 3.0;
    }
    all
}

/// A load by what the quota leaves.
fn scaled(load: &Load, by: f64) -> Load {
    match load {
        Load::Steady(x) => Load::Steady(x * by),
        Load::Spike(base, most, from, to) => Load::Spike(base * by, most * by, *from, *to),
        Load::Sine(middle, around, period) => Load::Sine(middle * by, around * by, *period),
        Load::Bursts(low, high, each) => Load::Bursts(low * by, high * by, *each),
        // As they are: they become an overload for longer.
        other => other.clone(),
    }
}

/// The regret of one workload, in shares of the best static goodput.
struct Regret {
    governed: f64,
    default: f64,
    /// Without each layer.
    without: [f64; 6],
    below: bool,
    harm: f64,
    p99: [f64; 2],
    best: String,
}

fn judge(workload: &Workload) -> Regret {
    let beside = matches!(workload.family, Family::Beside | Family::Disk(_));
    let statics = Policy::statics(beside);
    let default = Sim::run(workload, &Policy::default_static());
    let mut best = (Policy::default_static(), default.clone());
    for policy in statics {
        let report = Sim::run(workload, &policy);
        if report.goodput() > best.1.goodput() {
            best = (policy, report);
        }
    }
    let (setting, best) = best;
    let governed = Sim::run(workload, &Policy::governed());
    // Where no setting serves anyone there is nothing to regret.
    let most = best.goodput();
    let regret = |report: &Report| if most > 0.0 { 1.0 - report.goodput() / most } else { 0.0 };
    let without =
        Layers::ablations().map(|(_, layers)| regret(&Sim::run(workload, &Policy::with(layers))));
    let quota = if workload.machine.quota.is_some() { 2.0 } else { 1.0 };
    Regret {
        governed: regret(&governed),
        default: regret(&default),
        without,
        below: (0.01..0.9).contains(&(workload.load.most() * quota)),
        harm: 1.0 - governed.goodput() / default.goodput().max(1e-9),
        p99: [best.ms_all(0.99), governed.ms_all(0.99)],
        best: setting.told(),
    }
}

fn table(workloads: &[Workload]) -> Vec<Regret> {
    let half = workloads.len() / 2;
    let judged = std::thread::scope(|scope| {
        let second = scope.spawn(|| workloads[half..].iter().map(judge).collect::<Vec<_>>());
        let mut first: Vec<Regret> = workloads[..half].iter().map(judge).collect();
        first.extend(second.join().expect("the second half is judged"));
        first
    });
    println!(
        "regret against the best static setting, in percent; p99 of the admitted in ms, of that"
    );
    println!("setting and governed; then the harm below saturation, or that setting");
    println!(
        "{:44} default governed | without phases backlog discard gate newest ladder | p99",
        ""
    );
    for (workload, regret) in workloads.iter().zip(&judged) {
        let without: String =
            regret.without.iter().map(|without| format!("{:7.1}", 100.0 * without)).collect();
        println!(
            "{:44} {:7.1} {:7.1} | {without} | {:6.0} {:6.0} {}",
            workload.name,
            100.0 * regret.default,
            100.0 * regret.governed,
            regret.p99[0],
            regret.p99[1],
            if regret.below {
                format!("harm {:.2} %", 100.0 * regret.harm)
            } else {
                regret.best.clone()
            },
        );
    }
    judged
}

fn mean(of: impl Iterator<Item = f64> + Clone) -> f64 {
    of.clone().sum::<f64>() / of.count().max(1) as f64
}

fn summary(what: &str, judged: &[Regret]) -> (f64, f64) {
    let regrets = || judged.iter().map(|regret| regret.governed.max(0.0));
    let (mean_regret, worst) = (mean(regrets()), regrets().fold(0.0, f64::max));
    let default = mean(judged.iter().map(|regret| regret.default.max(0.0)));
    println!(
        "{what}: mean regret {:.2} %, worst {:.1} %; default {:.1} %",
        100.0 * mean_regret,
        100.0 * worst,
        100.0 * default
    );
    for (n, (name, _)) in Layers::ablations().iter().enumerate() {
        // What is lost without the layer, in shares of the better of the two.
        let lost = mean(judged.iter().map(|of| {
            let (with, without) = (1.0 - of.governed, 1.0 - of.without[n]);
            (with - without) / with.max(without).max(1e-9)
        }));
        println!("  without {name:8} {:+.2} % of goodput lost", 100.0 * lost);
    }
    (mean_regret, worst)
}

#[test]
#[ignore = "full tier"]
fn e11_regret_is_small_on_workloads_that_the_rules_were_not_designed_by() {
    let mut all = workloads(grid(), DESIGNED);
    all.extend(workloads(Vec::new(), HELD_OUT));
    let judged = table(&all);
    summary("designed by", &judged[..DESIGNED.0]);
    let (mean_regret, worst) = summary("held out", &judged[DESIGNED.0..]);
    assert!(mean_regret <= 0.05 && worst <= 0.15, "{mean_regret:.3} {worst:.3}");
    let harm = judged.iter().filter(|regret| regret.below).map(|regret| regret.harm);
    let harm = harm.fold(0.0, f64::max);
    assert!(harm <= 0.005, "below saturation {harm:.4}");
}
