//! The size of a pool of threads or processes.

use crate::Ns;
use crate::machine::Machine;
use crate::why::{Ms, Why};

/// Below this share of idle CPU, in percent, another thread would only take it from others.
const IDLE_PERCENT: u32 = 10;

/// How long threads are idle before one ends.
const IDLE_FOR: Ns = 60_000_000_000;

/// How long a pool that grew for nothing does not grow again.
const HELD: Ns = 300_000_000_000;

/// What the operator allows a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBounds {
    /// The fewest.
    pub least: u32,
    /// The most, which memory may lower.
    pub most: u32,
    /// Whether its work takes CPU time, so that it does not grow in an overload.
    pub takes_cpu: bool,
}

/// What a pool was like within a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// How many there are.
    pub size: u32,
    /// Jobs that ended.
    pub jobs: u32,
    /// How long one took in the mean, its wait apart.
    pub service: Ns,
    /// The 95th percentile of the waits.
    pub waited_p95: Ns,
    /// The fewest that were idle.
    pub idle: u32,
}

/// The rule of one pool: as many as Little's law asks for, L = lambda W (Little 1961), one more
/// while jobs wait, one fewer when some are idle.
///
/// Utilisation and the law are what the maintainers of .NET's pool found to do as well as hill
/// climbing (dotnet/runtime#81406); climbing is slow and follows noise. What is measured here is
/// only a veto: a pool that grew and did no more is taken back, as with a disk of one arm.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PoolRule {
    idle_since: Option<Ns>,
    grown: Option<Grown>,
    held_until: Ns,
}

/// What it was like before it grew.
#[derive(Clone, Copy, Debug)]
struct Grown {
    from: u32,
    service: Ns,
    per_s: f64,
}

impl PoolRule {
    /// A window is over; what the size shall be instead, and why.
    pub(crate) fn step(
        &mut self,
        (from, to): (Ns, Ns),
        pool: &Pool,
        overloaded: bool,
        machine: &Machine,
        bounds: &PoolBounds,
    ) -> Option<(u32, Why)> {
        let per_s = f64::from(pool.jobs) * 1e9 / to.saturating_sub(from).max(1) as f64;
        if pool.idle == 0 {
            self.idle_since = None;
        } else {
            self.idle_since.get_or_insert(from);
        }
        if let Some(grown) = self.grown.take()
            && pool.size > grown.from
            && is_no_gain(&grown, pool, per_s)
        {
            self.held_until = to.saturating_add(HELD);
            return Some((grown.from, no_gain(&grown, pool, per_s)));
        }
        let may = to >= self.held_until
            && !(overloaded && bounds.takes_cpu)
            && machine.idle_percent > IDLE_PERCENT
            && !machine.is_contended();
        if let Some(size) = more(pool, per_s, bounds).filter(|_| may) {
            self.grown = Some(Grown { from: pool.size, service: pool.service, per_s });
            let (waited_ms, service_ms) = (Ms(pool.waited_p95), Ms(pool.service));
            let idle_percent = machine.idle_percent;
            return Some((size, Why::JobsWait { waited_ms, service_ms, idle_percent }));
        }
        let idle_for = to.saturating_sub(self.idle_since?);
        (idle_for >= IDLE_FOR && pool.size > bounds.least.max(wanted(pool, per_s))).then(|| {
            // The next has to be idle for as long.
            self.idle_since = Some(to);
            (pool.size - 1, Why::Idle { idle: pool.idle, for_ms: Ms(idle_for) })
        })
    }
}

/// The size of a pool for which jobs wait longer than they take.
fn more(pool: &Pool, per_s: f64, bounds: &PoolBounds) -> Option<u32> {
    let waits = pool.jobs > 0 && pool.idle == 0 && pool.waited_p95 > pool.service;
    let doubled = pool.size.saturating_mul(2);
    let size = wanted(pool, per_s).min(doubled).max(pool.size + 1).min(bounds.most);
    (waits && size > pool.size).then_some(size)
}

/// How many are at work by Little's law, and half as many more.
fn wanted(pool: &Pool, per_s: f64) -> u32 {
    (per_s * pool.service as f64 / 1e9 * 1.5).ceil() as u32
}

/// Jobs took longer by more than there were more of them.
fn is_no_gain(grown: &Grown, pool: &Pool, per_s: f64) -> bool {
    let slower = pool.service as f64 / grown.service.max(1) as f64;
    slower > 1.1 && slower > per_s / grown.per_s.max(1e-9)
}

fn no_gain(grown: &Grown, pool: &Pool, per_s: f64) -> Why {
    Why::NoGain {
        service_before_ms: Ms(grown.service),
        service_ms: Ms(pool.service),
        per_s_before: grown.per_s as u32,
        per_s: per_s as u32,
    }
}
