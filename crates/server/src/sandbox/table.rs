//! Which groups of system calls each architecture makes: one row for each, to be read beside its
//! file. [`Calls`] says what is in a group.

use flyball_arch::Architecture;
use flyball_arch::settings::{HelperKind, Settings};
use flyball_sys::sandbox::Calls;

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// The architecture.
    pub name: &'static str,
    /// What its workers do beside serving: [`SERVING`].
    pub calls: &'static [Calls],
    /// Whether it has helpers, which are threads or processes.
    pub helpers: bool,
    /// Whether it locks its caches in memory.
    pub locks_memory: bool,
}

/// What every worker does.
pub const SERVING: [Calls; 3] = [Calls::Common, Calls::Connections, Calls::Files];

const fn row(name: &'static str, calls: &'static [Calls]) -> Row {
    Row { name, calls, helpers: false, locks_memory: false }
}

/// Every architecture.
pub const TABLE: &[Row] = &[
    row("sped", &[Calls::Readiness, Calls::Threads]),
    row("symped", &[Calls::Readiness, Calls::Threads]),
    row("shared-symped", &[Calls::Readiness, Calls::Threads, Calls::Processes]),
    row("n-copy", &[Calls::Readiness, Calls::Threads]),
    Row { helpers: true, ..row("amped", &[Calls::Readiness]) },
    row("mp", &[]),
    row("mt", &[Calls::Threads]),
    row("thread-per-connection", &[Calls::Threads]),
    Row { helpers: true, ..row("knot-c", &[Calls::Readiness]) },
    Row { helpers: true, ..row("knot-a", &[Calls::Readiness]) },
    row("watpipe", &[Calls::Readiness, Calls::Threads]),
    Row { locks_memory: true, ..row("tux", &[Calls::Ring, Calls::Threads]) },
    row("uring", &[Calls::Ring, Calls::Threads]),
];

/// The row of an architecture.
pub(super) fn row_of(architecture: &dyn Architecture) -> &'static Row {
    let found = TABLE.iter().find(|row| row.name == architecture.name());
    found.expect("every architecture has a row, which a test sees to")
}

impl Row {
    /// Whether the architecture makes these calls for itself.
    pub(super) fn has(&self, group: Calls) -> bool {
        self.calls.contains(&group)
    }

    /// The groups of calls that a worker makes with these settings.
    pub fn calls(&self, settings: &Settings) -> Vec<Calls> {
        let mut calls = [&SERVING, self.calls].concat();
        if self.helpers {
            // Beside processes, threads do long work for the processor.
            calls.push(Calls::Threads);
            if settings.helper_kind == HelperKind::Process {
                calls.push(Calls::Processes);
            }
        }
        calls
    }
}

#[cfg(test)]
mod tests {
    use flyball_arch::registry::ALL;

    use super::*;

    #[test]
    fn the_table_has_a_row_for_every_architecture_in_their_order() {
        let rows: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
        let all: Vec<&str> = ALL.iter().map(|architecture| architecture.name()).collect();
        assert_eq!(rows, all);
    }

    #[test]
    fn only_rings_make_rings_and_only_who_forks_may_fork() {
        let with = |group, settings: &Settings| {
            let has = |row: &&Row| row.calls(settings).contains(&group);
            TABLE.iter().filter(has).map(|row| row.name).collect::<Vec<_>>()
        };
        let threads = Settings::default();
        assert_eq!(with(Calls::Ring, &threads), ["tux", "uring"]);
        assert_eq!(with(Calls::Processes, &threads), ["shared-symped"]);
        let processes = Settings { helper_kind: HelperKind::Process, ..Settings::default() };
        let forking = ["shared-symped", "amped", "knot-c", "knot-a"];
        assert_eq!(with(Calls::Processes, &processes), forking);
        for group in
            [Calls::Append, Calls::Connect, Calls::ConnectUnix, Calls::Locks, Calls::Timers]
        {
            assert!(with(group, &processes).is_empty(), "{group:?}");
        }
    }
}
