//! What the control groups of this process allow it, version 2 or 1, and which file says so.

/// Memory limits from here on mean that there is none: version 1 writes the largest number of whole
/// pages.
const UNLIMITED: u64 = i64::MAX as u64 / 4096 * 4096;

/// A limit of a control group.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit<T> {
    /// What is allowed.
    pub most: T,
    /// The file that says so.
    pub file: String,
}

/// The CPU quota of this process's groups, in CPUs' worth of time; the tightest on the way up.
/// Blocks on the file system of the kernel.
pub fn cpu_quota() -> Option<Limit<f64>> {
    tightest_of("cpu", |dir, is_unified| {
        if is_unified {
            let file = format!("{dir}/cpu.max");
            return Some(Limit { most: parse_cpu_max(&read(&file)?)?, file });
        }
        let file = format!("{dir}/cpu.cfs_quota_us");
        let (quota, period) = (read(&file)?, read(&format!("{dir}/cpu.cfs_period_us"))?);
        let most = parse_cpu_max(&format!("{} {}", quota.trim(), period.trim()))?;
        Some(Limit { most, file })
    })
}

/// The most memory that this process's groups may use together, in bytes; the tightest on the way
/// up. Blocks on the file system of the kernel.
pub fn memory_limit() -> Option<Limit<u64>> {
    tightest_of("memory", |dir, is_unified| {
        let name = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
        let file = format!("{dir}/{name}");
        let most = read(&file)?.trim().parse().ok().filter(|most| *most < UNLIMITED)?;
        Some(Limit { most, file })
    })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// The tightest limit of the groups that this controller has this process in. `read` is given a
/// directory and whether it is one of version 2.
fn tightest_of<T: PartialOrd>(
    controller: &str,
    read_limit: impl Fn(&str, bool) -> Option<Limit<T>>,
) -> Option<Limit<T>> {
    let membership = read("/proc/self/cgroup")?;
    let mut found: Option<Limit<T>> = None;
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let limit = if controllers.is_empty() {
            tightest("/sys/fs/cgroup", path, |dir| read_limit(dir, true))
        } else if controllers.split(',').any(|name| name == controller) {
            tightest(&format!("/sys/fs/cgroup/{controllers}"), path, |dir| read_limit(dir, false))
        } else {
            None
        };
        found = tighter(found, limit);
    }
    found
}

fn tightest<T: PartialOrd>(
    base: &str,
    path: &str,
    read_limit: impl Fn(&str) -> Option<Limit<T>>,
) -> Option<Limit<T>> {
    let mut found = None;
    let mut path = path.trim_end_matches('/');
    loop {
        found = tighter(found, read_limit(&format!("{base}{path}")));
        match path.rfind('/') {
            Some(at) => path = &path[..at],
            None => return found,
        }
    }
}

fn tighter<T: PartialOrd>(one: Option<Limit<T>>, other: Option<Limit<T>>) -> Option<Limit<T>> {
    match (one, other) {
        (Some(one), Some(other)) if other.most < one.most => Some(other),
        (one, other) => one.or(other),
    }
}

/// `max 100000` or `50000 100000`: quota and period in microseconds.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok().filter(|quota| *quota > 0.0)?;
    let period: f64 = words.next()?.parse().ok().filter(|period| *period > 0.0)?;
    Some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_read_as_cpus() {
        assert_eq!(parse_cpu_max("max 100000"), None);
        assert_eq!(parse_cpu_max("-1 100000"), None);
        assert_eq!(parse_cpu_max("150000 100000\n"), Some(1.5));
        assert_eq!(parse_cpu_max("150000 0"), None);
    }

    #[test]
    fn the_tightest_limit_on_the_way_to_the_root_counts() {
        let quotas = [("/base/a/b", 4.0), ("/base/a", 2.0), ("/base", 8.0)];
        let read = |dir: &str| {
            let (dir, most) = quotas.iter().find(|(d, _)| *d == dir)?;
            Some(Limit { most: *most, file: (*dir).into() })
        };
        let limit = |most, file: &str| Some(Limit { most, file: file.into() });
        assert_eq!(tightest("/base", "/a/b", read), limit(2.0, "/base/a"));
        assert_eq!(tightest("/base", "/", read), limit(8.0, "/base"));
        assert_eq!(tightest("/other", "/a", read), None);
    }
}
