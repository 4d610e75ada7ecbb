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
    Places::OWN.cpu_quota()
}

/// The most memory that this process's groups may use together, in bytes; the tightest on the way
/// up. Blocks on the file system of the kernel.
pub fn memory_limit() -> Option<Limit<u64>> {
    Places::OWN.memory_limit()
}

/// Where the kernel tells of control groups.
#[derive(Clone, Copy, Debug)]
struct Places<'a> {
    /// The file that says which groups a process is in.
    membership: &'a str,
    /// The directory of all groups.
    groups: &'a str,
}

impl Places<'_> {
    /// Those of this process.
    const OWN: Places<'static> =
        Places { membership: "/proc/self/cgroup", groups: "/sys/fs/cgroup" };

    fn cpu_quota(self) -> Option<Limit<f64>> {
        self.tightest_of("cpu", quota_of)
    }

    fn memory_limit(self) -> Option<Limit<u64>> {
        self.tightest_of("memory", memory_of)
    }

    /// The tightest limit of the groups that this controller has the process in. `read_limit` is
    /// given a directory and whether it is one of version 2.
    fn tightest_of<T: PartialOrd>(
        self,
        controller: &str,
        read_limit: impl Fn(&str, bool) -> Option<Limit<T>>,
    ) -> Option<Limit<T>> {
        let (membership, groups) = (read(self.membership)?, self.groups);
        let mut found: Option<Limit<T>> = None;
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let limit = if controllers.is_empty() {
                tightest(groups, path, |dir| read_limit(dir, true))
            } else if controllers.split(',').any(|name| name == controller) {
                tightest(&format!("{groups}/{controllers}"), path, |dir| read_limit(dir, false))
            } else {
                None
            };
            found = tighter(found, limit);
        }
        found
    }
}

fn quota_of(dir: &str, is_unified: bool) -> Option<Limit<f64>> {
    if is_unified {
        let file = format!("{dir}/cpu.max");
        return Some(Limit { most: parse_cpu_max(&read(&file)?)?, file });
    }
    let file = format!("{dir}/cpu.cfs_quota_us");
    let (quota, period) = (read(&file)?, read(&format!("{dir}/cpu.cfs_period_us"))?);
    let most = parse_cpu_max(&format!("{} {}", quota.trim(), period.trim()))?;
    Some(Limit { most, file })
}

fn memory_of(dir: &str, is_unified: bool) -> Option<Limit<u64>> {
    let name = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
    let file = format!("{dir}/{name}");
    let most = read(&file)?.trim().parse().ok().filter(|most| *most < UNLIMITED)?;
    Some(Limit { most, file })
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
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

    /// A tree of groups: files by name and content, the membership among them.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = tree.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        tree
    }

    /// What is read there; files are told from the tree on.
    fn limits(tree: &tempfile::TempDir) -> (Option<Limit<f64>>, Option<Limit<u64>>) {
        let root = tree.path().to_str().unwrap();
        let (membership, groups) = (format!("{root}/membership"), format!("{root}/groups"));
        let places = Places { membership: &membership, groups: &groups };
        let short = |file: String| file.strip_prefix(&groups).unwrap().to_owned();
        let cpu = places.cpu_quota().map(|limit| Limit { file: short(limit.file), ..limit });
        let memory = places.memory_limit().map(|limit| Limit { file: short(limit.file), ..limit });
        (cpu, memory)
    }

    #[test]
    fn limits_of_version_2_are_read_on_the_way_up() {
        let tree = tree(&[
            ("membership", "0::/system.slice/flyball.service\n"),
            ("groups/system.slice/flyball.service/cpu.max", "max 100000\n"),
            ("groups/system.slice/flyball.service/memory.max", "268435456\n"),
            ("groups/system.slice/cpu.max", "150000 100000\n"),
            ("groups/system.slice/memory.max", "max\n"),
        ]);
        let cpu = Limit { most: 1.5, file: "/system.slice/cpu.max".into() };
        let memory =
            Limit { most: 256 << 20, file: "/system.slice/flyball.service/memory.max".into() };
        assert_eq!(limits(&tree), (Some(cpu), Some(memory)));
    }

    #[test]
    fn limits_of_version_1_are_those_of_the_controller() {
        let tree = tree(&[
            ("membership", "4:memory:/m\n3:cpu,cpuacct:/c\n2:pids:/p\n0::/\n"),
            ("groups/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n"),
            ("groups/cpu,cpuacct/c/cpu.cfs_period_us", "100000\n"),
            ("groups/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("groups/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("groups/memory/m/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let cpu = Limit { most: 0.5, file: "/cpu,cpuacct/c/cpu.cfs_quota_us".into() };
        assert_eq!(limits(&tree), (Some(cpu), None));
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        let alone = tree(&[("membership", "0::/\n"), ("groups/cpu.max.burst", "0\n")]);
        assert_eq!(limits(&alone), (None, None));
        assert_eq!(limits(&tree(&[])), (None, None));
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
