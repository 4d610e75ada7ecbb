//! What an architecture may cost beside others, and beside a server that does nothing.

use super::report::{Summary, Verdict, doubt};

/// The architectures that have a target, or that one is compared with.
pub(crate) const ARCHS: &[&str] =
    &["sped", "n-copy", "symped", "shared-symped", "amped", "mt", "tux", "uring"];

/// A bound on one architecture's CPU time for a request, as a share of the best of some others.
struct Rivalry {
    work: &'static str,
    arch: &'static str,
    others: &'static [&'static str],
    at_most: f64,
}

const READINESS: &[&str] = &["sped", "n-copy", "symped", "amped"];

const RIVALRIES: &[Rivalry] = &[
    Rivalry { work: "crowd", arch: "uring", others: READINESS, at_most: 0.85 },
    Rivalry { work: "keep", arch: "uring", others: READINESS, at_most: 1.03 },
    Rivalry { work: "mix", arch: "uring", others: READINESS, at_most: 1.03 },
    Rivalry { work: "keep", arch: "amped", others: &["sped"], at_most: 1.05 },
    Rivalry { work: "mix", arch: "amped", others: &["sped"], at_most: 1.05 },
    Rivalry { work: "keep", arch: "mt", others: &["sped"], at_most: 1.15 },
];

/// The architectures that hold many connections at little cost.
pub(crate) const EVENT_DRIVEN: &[&str] =
    &["sped", "n-copy", "symped", "shared-symped", "amped", "tux", "uring"];

/// How much further from a server that does nothing an architecture may be with 10,000 connections
/// than it is with 64.
const DISTANCE_MAX: f64 = 1.15;

/// Compares every architecture that was measured with those that it has a target for.
pub(crate) fn verdicts(summaries: &[Summary]) -> Vec<Verdict> {
    let found = |work: &str, contestant: &str| {
        summaries.iter().find(|s| s.work.name == work && s.contestant == contestant)
    };
    let of_arch = |work: &str, arch: &str| found(work, &format!("flyball-{arch}"));
    let mut verdicts = Vec::new();
    for rivalry in RIVALRIES {
        let Some(own) = of_arch(rivalry.work, rivalry.arch) else { continue };
        let others = rivalry.others.iter().filter_map(|arch| of_arch(rivalry.work, arch));
        let best = others.min_by(|a, b| a.cpu_us.median.total_cmp(&b.cpu_us.median));
        let Some(best) = best else { continue };
        let ratio = own.cpu_us.median / best.cpu_us.median;
        verdicts.push(verdict(own, best, ratio, rivalry.at_most));
    }
    for arch in EVENT_DRIVEN {
        let (Some(many), Some(few)) = (of_arch("active", arch), of_arch("keep", arch)) else {
            continue;
        };
        let (Some(null_many), Some(null_few)) = (found("active", "null"), found("keep", "null"))
        else {
            continue;
        };
        let far = many.cpu_us.median / null_many.cpu_us.median;
        let near = few.cpu_us.median / null_few.cpu_us.median;
        verdicts.push(verdict(many, null_many, far / near, DISTANCE_MAX));
    }
    verdicts
}

fn verdict(own: &Summary, other: &Summary, ratio: f64, at_most: f64) -> Verdict {
    Verdict {
        work: own.work.name,
        peer: other.contestant.clone(),
        flyball: own.contestant.clone(),
        ratio,
        at_most,
        doubt: doubt(own, other),
        passed: ratio <= at_most && own.errors == 0,
    }
}
