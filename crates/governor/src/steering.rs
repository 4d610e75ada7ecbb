//! The slow part: sizes of pools, workers by the CPU allowance, advice. One move at a time.

use crate::Ns;
use crate::machine::Machine;
use crate::moves::{Lever, Move};
use crate::pool::{Pool, PoolBounds, PoolRule};
use crate::why::{Ms, Why};

const S: Ns = 1_000_000_000;

/// How long a move is left alone to have its effect before the next.
const SETTLES: Ns = 10 * S;

/// How long another CPU allowance must last until workers follow it.
const ALLOWED_FOR: Ns = 30 * S;

/// The time between two changes of workers.
const WORKERS_APART: Ns = 300 * S;

/// The time between two pieces of advice about the same.
const ADVICE_APART: Ns = 600 * S;

/// More hits that are worth advice, in hundredths of a percent.
const GAIN_BASIS_POINTS: u32 = 200;

/// Waiting for the disk in turns that is worth advice, in percent of a loop's time.
const DISK_PERCENT: u32 = 20;

/// Requests of a connection, in hundredths, above which user-level threads do best with an
/// accept-limit of 1 (1.43 times as much; 0.65 times with fewer).
const REQUESTS_EACH: u32 = 200;

/// What the operator allows.
#[derive(Clone, Copy, Debug)]
pub struct SteeringBounds<'a> {
    /// While it is set nothing moves, and nothing is advised.
    pub frozen: bool,
    /// Levers that the operator has set: they stay.
    pub pinned: &'a [Lever],
    /// Of helpers, where there are any.
    pub helpers: Option<PoolBounds>,
    /// Of threads that serve connections, where their number is not that of the connections.
    pub threads: Option<PoolBounds>,
    /// The most workers; `None` where their number does not follow the CPU allowance.
    pub workers_most: Option<u32>,
}

/// What advice is given by; `None` where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// The accept-limit, where the best one depends on the clients, and requests of a connection in
    /// hundredths.
    pub accept_limit: Option<(u32, u32)>,
    /// Bytes of the content cache, a larger number, and hits that it would have had more in
    /// hundredths of a percent of all requests.
    pub cache: Option<(u64, u64, u32)>,
    /// Time in turns that waited for the disk, in percent.
    pub disk_percent: Option<u32>,
}

/// What the server was like within a window.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    /// When it began.
    pub from: Ns,
    /// When it ended.
    pub to: Ns,
    /// Which workers are overloaded. The worst of them counts: sockets of one port are not shared
    /// out fairly, and a mean hides the worker that is hit.
    pub overloaded: &'a [bool],
    /// A generation of workers is starting or finishing.
    pub finishing: bool,
    /// Helpers of all workers.
    pub helpers: Option<Pool>,
    /// Threads of all workers.
    pub threads: Option<Pool>,
    /// Worker processes.
    pub workers: u32,
    /// The machine.
    pub machine: Machine,
    /// What advice is given by.
    pub advice: Advice,
}

/// Decides over minutes, for the whole server.
#[derive(Clone, Debug, Default)]
pub struct Steering {
    helpers: PoolRule,
    threads: PoolRule,
    moved: Option<Ns>,
    workers_moved: Option<Ns>,
    /// Workers by another allowance, and since when.
    allowed: Option<(u32, Ns)>,
    advised: [Option<Ns>; 3],
}

impl Steering {
    /// A window is over; one move or one piece of advice, if any.
    pub fn step(&mut self, window: &Window<'_>, bounds: &SteeringBounds<'_>) -> Option<Move> {
        let overloaded = window.overloaded.contains(&true);
        let workers = self.workers_wanted(window, bounds);
        let is_settled = self.moved.is_none_or(|at| window.to.saturating_sub(at) >= SETTLES);
        if bounds.frozen || !is_settled {
            return None;
        }
        let may = |lever: &Lever| !bounds.pinned.contains(lever);
        let helpers = Some(Lever::Helpers).filter(may).and_then(|lever| {
            let (pool, bounds) = (window.helpers?, bounds.helpers?);
            Steering::pool(&mut self.helpers, lever, window, overloaded, (&pool, &bounds))
        });
        let moved = helpers.or_else(|| {
            let lever = Some(Lever::Threads).filter(may)?;
            let (pool, bounds) = (window.threads?, bounds.threads?);
            Steering::pool(&mut self.threads, lever, window, overloaded, (&pool, &bounds))
        });
        let moved = moved.or_else(|| {
            let is_quiet = !overloaded && !window.finishing;
            let apart = self.workers_moved.is_none_or(|at| window.to - at >= WORKERS_APART);
            let moved = workers.filter(|_| is_quiet && apart && may(&Lever::Workers))?;
            self.workers_moved = Some(window.to);
            Some(moved)
        });
        if moved.is_some() {
            self.moved = Some(window.to);
            return moved;
        }
        let advice = if overloaded { None } else { self.advise(window) };
        advice.filter(|advice| may(&advice.lever))
    }

    fn pool(
        rule: &mut PoolRule,
        lever: Lever,
        window: &Window<'_>,
        overloaded: bool,
        (pool, bounds): (&Pool, &PoolBounds),
    ) -> Option<Move> {
        let times = (window.from, window.to);
        let (to, why) = rule.step(times, pool, overloaded, &window.machine, bounds)?;
        let to = to.clamp(bounds.least, bounds.most.max(bounds.least));
        let (from, to) = (u64::from(pool.size), u64::from(to));
        (from != to).then_some(Move { lever, from, to, why })
    }

    /// As many workers as CPUs are allowed, once that has differed for long enough.
    fn workers_wanted(&mut self, window: &Window<'_>, bounds: &SteeringBounds<'_>) -> Option<Move> {
        let allowed_percent = window.machine.allowed_percent;
        let wanted = allowed_percent.div_ceil(100).clamp(1, bounds.workers_most?.max(1));
        if wanted == window.workers || allowed_percent == 0 {
            self.allowed = None;
            return None;
        }
        let since = match self.allowed {
            Some((workers, since)) if workers == wanted => since,
            _ => self.allowed.insert((wanted, window.from)).1,
        };
        let lasted = window.to.saturating_sub(since);
        let why = Why::QuotaChanged { allowed_percent, for_ms: Ms(lasted) };
        let (from, to) = (u64::from(window.workers), u64::from(wanted));
        (lasted >= ALLOWED_FOR).then_some(Move { lever: Lever::Workers, from, to, why })
    }

    /// What an operator might try. Of each only now and then.
    fn advise(&mut self, window: &Window<'_>) -> Option<Move> {
        let Advice { accept_limit, cache, disk_percent } = window.advice;
        let limit = accept_limit.and_then(|(from, hundredths)| {
            let to = if hundredths > REQUESTS_EACH { 1 } else { from.max(50) };
            let (lever, why) = (Lever::AcceptLimit, Why::RequestsEach { hundredths });
            (from != to).then_some(Move { lever, from: u64::from(from), to: u64::from(to), why })
        });
        let cache = cache.and_then(|(from, to, gain_basis_points)| {
            let (lever, why) = (Lever::CacheContent, Why::GhostHits { gain_basis_points });
            (gain_basis_points >= GAIN_BASIS_POINTS).then_some(Move { lever, from, to, why })
        });
        let disk = disk_percent.filter(|percent| *percent >= DISK_PERCENT).map(|percent| {
            let (lever, why) = (Lever::Architecture, Why::DiskInTurns { percent });
            Move { lever, from: 0, to: 0, why }
        });
        [limit, cache, disk].into_iter().zip(&mut self.advised).find_map(|(advice, at)| {
            let is_due = at.is_none_or(|at| window.to.saturating_sub(at) >= ADVICE_APART);
            let advice = advice.filter(|_| is_due)?;
            *at = Some(window.to);
            Some(advice)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    const POOL: PoolBounds = PoolBounds { least: 2, most: 32, takes_cpu: true };
    const BOUNDS: SteeringBounds<'_> = SteeringBounds {
        frozen: false,
        pinned: &[],
        helpers: Some(PoolBounds { takes_cpu: false, ..POOL }),
        threads: Some(POOL),
        workers_most: Some(8),
    };

    /// The `n`th window of ten seconds.
    fn window(n: u64) -> Window<'static> {
        let (lasted, idle_percent) = (SETTLES, 50);
        let machine = Machine { allowed_percent: 200, idle_percent, lasted, ..Machine::default() };
        Window {
            from: n * SETTLES,
            to: (n + 1) * SETTLES,
            overloaded: &[false],
            finishing: false,
            helpers: None,
            threads: None,
            workers: 2,
            machine,
            advice: Advice::default(),
        }
    }

    fn waits(size: u32, jobs: u32, service: Ns) -> Option<Pool> {
        Some(Pool { size, jobs, service, waited_p95: 3 * service, idle: 0 })
    }

    fn told(made: Option<Move>) -> Option<(Lever, u64, u64)> {
        made.map(|made| (made.lever, made.from, made.to))
    }

    #[test]
    fn a_pool_grows_by_littles_law_at_most_to_twice_its_size_and_while_there_is_cpu() {
        // 200 a second of 100 ms are 20 at work, and half as many more.
        for (size, to) in [(4, 8), (20, 30), (30, 31), (31, 32)] {
            let window = Window { helpers: waits(size, 2_000, 100 * MS), ..window(0) };
            let made = told(Steering::default().step(&window, &BOUNDS));
            assert_eq!(made, Some((Lever::Helpers, u64::from(size), to)));
        }
        let full = Window { helpers: waits(32, 2_000, 100 * MS), ..window(0) };
        assert_eq!(Steering::default().step(&full, &BOUNDS), None);
        let machine = Machine { idle_percent: 10, ..window(0).machine };
        let busy = Window { helpers: waits(4, 2_000, 100 * MS), machine, ..window(0) };
        assert_eq!(Steering::default().step(&busy, &BOUNDS), None);
    }

    #[test]
    fn in_overload_helpers_of_a_disk_grow_and_threads_do_not() {
        let both = |n| Window {
            helpers: waits(4, 200, 100 * MS),
            threads: waits(4, 200, 100 * MS),
            overloaded: &[false, true],
            ..window(n)
        };
        let mut steering = Steering::default();
        assert_eq!(told(steering.step(&both(0), &BOUNDS)), Some((Lever::Helpers, 4, 5)));
        let only = Window { helpers: None, ..both(2) };
        assert_eq!(steering.step(&only, &BOUNDS), None);
        let calm = Window { overloaded: &[false], ..only };
        assert_eq!(told(steering.step(&calm, &BOUNDS)), Some((Lever::Threads, 4, 5)));
    }

    #[test]
    fn a_pool_that_grew_for_nothing_is_taken_back_and_left_alone() {
        let mut steering = Steering::default();
        let first = Window { helpers: waits(4, 400, 100 * MS), ..window(0) };
        assert_eq!(told(steering.step(&first, &BOUNDS)), Some((Lever::Helpers, 4, 6)));
        // One arm: each job takes longer, and there are no more of them.
        let then = |n| Window { helpers: waits(6, 400, 150 * MS), ..window(n) };
        let made = steering.step(&then(1), &BOUNDS).unwrap();
        assert_eq!(told(Some(made)), Some((Lever::Helpers, 6, 4)));
        assert!(matches!(made.why, Why::NoGain { per_s: 40, .. }), "{made}");
        let again = |n| Window { helpers: waits(4, 400, 100 * MS), ..window(n) };
        assert!((2..31).all(|n| steering.step(&again(n), &BOUNDS).is_none()));
        assert!(steering.step(&again(32), &BOUNDS).is_some());
    }

    #[test]
    fn idle_threads_end_one_in_a_minute_down_to_what_is_at_work() {
        let mut steering = Steering::default();
        let mut size = 6;
        let mut ended = Vec::new();
        for n in 0..60 {
            let pool = Pool { size, jobs: 200, service: 100 * MS, waited_p95: 0, idle: 1 };
            let window = Window { threads: Some(pool), ..window(n) };
            if let Some(made) = steering.step(&window, &BOUNDS) {
                size = made.to as u32;
                ended.push((n, size));
            }
        }
        // Two at work, and half as many more.
        assert_eq!(ended, [(5, 5), (11, 4), (17, 3)]);
    }

    #[test]
    fn workers_follow_an_allowance_that_lasts_and_not_more_often_than_in_five_minutes() {
        let mut steering = Steering::default();
        let mut workers = 2;
        let mut moved = Vec::new();
        for n in 0..80 {
            let allowed_percent = match n {
                0..10 => 200,
                10..12 => 50,
                12..20 => 200,
                20..30 => 50,
                _ => 350,
            };
            let machine = Machine { allowed_percent, ..window(n).machine };
            let window = Window { machine, workers, ..window(n) };
            if let Some(made) = steering.step(&window, &BOUNDS) {
                workers = made.to as u32;
                moved.push((n, workers));
            }
        }
        assert_eq!(moved, [(22, 1), (52, 4)]);
    }

    #[test]
    fn what_is_frozen_or_pinned_does_not_move_and_one_moves_at_a_time() {
        let both = |n| Window {
            helpers: waits(4, 200, 100 * MS),
            threads: waits(4, 200, 100 * MS),
            ..window(n)
        };
        let frozen = SteeringBounds { frozen: true, ..BOUNDS };
        assert_eq!(Steering::default().step(&both(0), &frozen), None);
        let pinned = SteeringBounds { pinned: &[Lever::Helpers], ..BOUNDS };
        let made = Steering::default().step(&both(0), &pinned);
        assert_eq!(told(made), Some((Lever::Threads, 4, 5)));
        let mut steering = Steering::default();
        assert!(steering.step(&both(0), &BOUNDS).is_some());
        let soon = Window { to: both(0).to + SETTLES / 2, ..both(0) };
        assert_eq!(steering.step(&soon, &BOUNDS), None);
    }

    #[test]
    fn advice_is_given_now_and_then_and_moves_nothing() {
        let mut steering = Steering::default();
        let advice = Advice {
            accept_limit: Some((16, 720)),
            cache: Some((64 << 20, 128 << 20, 400)),
            disk_percent: Some(35),
        };
        let given: Vec<(u64, Lever)> = (0..70)
            .filter_map(|n| {
                let made = steering.step(&Window { advice, ..window(n) }, &BOUNDS)?;
                Some((n, made.lever))
            })
            .collect();
        let all = [Lever::AcceptLimit, Lever::CacheContent, Lever::Architecture];
        let at = |first: u64| (first..).zip(all);
        assert_eq!(given, at(0).chain(at(60)).collect::<Vec<_>>());
        let quiet = Advice {
            accept_limit: Some((1, 720)),
            cache: Some((64, 128, 100)),
            disk_percent: Some(5),
        };
        assert_eq!(steering.step(&Window { advice: quiet, ..window(200) }, &BOUNDS), None);
    }
}
