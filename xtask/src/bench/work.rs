//! The works: what the generator asks for, and what Flyball may cost for it.

use super::files;

/// Requests written at once in `pipe`.
pub(crate) const PIPELINE_DEPTH: usize = 16;

/// One work of the comparison.
#[derive(Debug)]
pub(crate) struct Work {
    /// Name on the command line and in records.
    pub(crate) name: &'static str,
    /// What is asked for, for the reader of a report.
    pub(crate) title: &'static str,
    /// Concurrent connections of the generator.
    pub(crate) connections: u32,
    /// Whether the generator has the server's CPU as well, so that the server never waits.
    pub(crate) crowded: bool,
    /// Script of the generator, in lab/wrk.
    pub(crate) script: &'static str,
    /// Arguments of that script.
    pub(crate) arguments: &'static [&'static str],
    /// Path of the URL; `mix` draws its own.
    pub(crate) path: &'static str,
    /// How requests follow each other on a connection.
    pub(crate) connection: Connection,
    /// What the server's CPU time is divided by.
    pub(crate) unit: Unit,
    /// Kernel settings while this work runs: a path below /proc/sys, and the value.
    pub(crate) kernel: &'static [(&'static str, &'static str)],
    /// The targets.
    pub(crate) targets: &'static [Target],
}

/// How requests follow each other on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// One request each, with `Connection: close`.
    Close,
    /// The next request follows the answer.
    KeepAlive,
    /// `PIPELINE_DEPTH` requests in one write.
    Pipelined,
}

/// What the server's CPU time is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Answers.
    Request,
    /// Bytes received by the generator, in MiB: requests cut off by the end of a run count too.
    Mebibyte,
}

impl Unit {
    /// Name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Request => "request",
            Unit::Mebibyte => "MiB",
        }
    }
}

/// A bound on Flyball's CPU time for a unit of a work, as a share of a peer's.
#[derive(Debug)]
pub(crate) struct Target {
    /// Name of the contestant compared with.
    pub(crate) peer: &'static str,
    /// Largest share of its CPU time that meets the target.
    pub(crate) at_most: f64,
}

const fn target(peer: &'static str, at_most: f64) -> Target {
    Target { peer, at_most }
}

/// A small file, again and again.
pub(crate) const KEEP: Work = Work {
    name: "keep",
    title: "1 KB keep-alive, 64 connections",
    connections: 64,
    crowded: false,
    script: "get.lua",
    arguments: &[],
    path: files::SMALL,
    connection: Connection::KeepAlive,
    unit: Unit::Request,
    kernel: &[],
    targets: &[target("nginx", 0.72), target("lighttpd", 0.98)],
};

const MIX: Work = Work {
    name: "mix",
    title: "SPECweb99-like mix, 205 MB, keep-alive, 64 connections",
    connections: 64,
    crowded: false,
    script: "mix.lua",
    // Directories, draws, seed.
    arguments: &["40", "20000", "1999"],
    path: "/",
    connection: Connection::KeepAlive,
    unit: Unit::Request,
    kernel: &[],
    targets: &[target("nginx", 0.80), target("lighttpd", 0.96)],
};

/// The works that compare architectures with each other, in the order they run.
pub(crate) const OF_ARCHITECTURES: &[Work] = &[
    Work {
        name: "crowd",
        title: "1 KB, a new connection for each request, 64 at a time, wrk on both CPUs",
        connections: 64,
        crowded: true,
        script: "get.lua",
        arguments: &[],
        path: files::SMALL,
        connection: Connection::Close,
        unit: Unit::Request,
        kernel: &[("net/ipv4/tcp_max_tw_buckets", "524288")],
        targets: &[],
    },
    Work {
        name: "keep-crowd",
        title: "1 KB keep-alive, 64 connections, wrk on both CPUs",
        crowded: true,
        targets: &[],
        ..KEEP
    },
    Work { targets: &[], ..KEEP },
    Work { targets: &[], ..MIX },
    Work {
        name: "active",
        title: "1 KB keep-alive, 10,000 connections",
        connections: 10_000,
        targets: &[],
        ..KEEP
    },
];

/// All works that compare with other servers, in the order they run.
pub(crate) const ALL: &[Work] = &[
    Work {
        name: "new",
        title: "1 KB, a new connection for each request, 64 at a time",
        connections: 64,
        crowded: false,
        script: "get.lua",
        arguments: &[],
        path: files::SMALL,
        connection: Connection::Close,
        unit: Unit::Request,
        // Each contestant leaves some 28,000 sockets in TIME-WAIT, one for each local port. The
        // default of 131,072 for all would make the last ones cheaper than the first.
        kernel: &[("net/ipv4/tcp_max_tw_buckets", "524288")],
        targets: &[target("nginx", 0.68), target("nginx-deferred", 1.00), target("lighttpd", 0.60)],
    },
    KEEP,
    Work {
        name: "pipe",
        title: "1 KB keep-alive, pipelined 16 deep, 64 connections",
        connections: 64,
        crowded: false,
        script: "pipeline.lua",
        arguments: &["16"],
        path: files::SMALL,
        connection: Connection::Pipelined,
        unit: Unit::Request,
        kernel: &[],
        targets: &[target("nginx", 0.25), target("lighttpd", 0.25)],
    },
    MIX,
    Work {
        name: "large",
        title: "10 MiB keep-alive, 16 connections, cubic for all",
        connections: 16,
        crowded: false,
        script: "get.lua",
        arguments: &[],
        path: files::LARGE,
        connection: Connection::KeepAlive,
        unit: Unit::Mebibyte,
        // The pacing of bbr costs three times as much as the copy it paces; nginx 1.22 and lighttpd
        // cannot choose for their sockets, so the system's default is changed.
        kernel: &[("net/ipv4/tcp_congestion_control", "cubic")],
        targets: &[target("nginx", 1.00), target("lighttpd", 1.00)],
    },
];

impl Work {
    /// The work of that name.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> &'static Work {
        ALL.iter().find(|work| work.name == name).expect("a work of that name")
    }

    /// Requests that must be answered on one connection: more than the 1,000 after which nginx and
    /// lighttpd close it by default, or a few where each is large.
    pub(crate) fn kept_requests(&self) -> usize {
        match self.unit {
            Unit::Request => 2_000,
            Unit::Mebibyte => 4,
        }
    }

    /// The paths whose answers are compared with the files before anything is timed.
    pub(crate) fn sample(&self) -> Vec<String> {
        match self.script {
            "mix.lua" => files::mix_sample(),
            _ => vec![self.path.to_owned()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_are_told_the_depth_and_the_directories_that_the_checks_use() {
        assert_eq!(Work::named("pipe").arguments[0], PIPELINE_DEPTH.to_string());
        assert_eq!(Work::named("mix").arguments[0], files::DIRECTORIES.to_string());
    }
}
