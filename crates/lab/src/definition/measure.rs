//! What a run measures, by name.

use serde::{Deserialize, Serialize};

/// What a figure is drawn of and a claim speaks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Replies in a second that came whole and in time.
    GoodputPerS,
    /// Replies in a second.
    RepliesPerS,
    /// Bits that arrived in a second, in millions.
    MbitPerS,
    /// Microseconds of the server's CPU time for a reply.
    CpuUsPerReply,
    /// Connections that the kernel dropped, by the seconds in which they were due.
    DropsPerS,
    /// Those of them for which the accept queue had no room.
    OverflowsPerS,
    /// Those of them for which the queue of half-open connections had no room.
    RequestDropsPerS,
    /// The median latency, in microseconds.
    LatencyP50Us,
    /// The 99th percentile of latency, in microseconds.
    LatencyP99Us,
    /// The 99th percentile of the latency of those that were admitted, in microseconds: neither
    /// refused nor given up.
    AdmittedP99Us,
    /// The same without those whose connection lost its first packet.
    AdmittedAtOnceP99Us,
    /// The share of all tries that the server, or its machine, turned away.
    ShedShare,
    /// The share of all tries that the clients gave up.
    TimeoutShare,
    /// The share of our server's answers that no client waited for any more.
    WastedShare,
    /// Seconds after the last change of the rate until as much is answered well as before the
    /// first; all that are left of the run where that does not come.
    RecoveryS,
    /// Microseconds of the server's CPU time for a connection that it accepted.
    CpuUsPerConnection,
    /// Connections that the server accepted in a second while it was loaded.
    AcceptsPerS,
    /// Connections that the server held open at the end of its load.
    OpenConnections,
    /// Connections that the server accepted in one accept phase.
    AcceptsPerPhase,
    /// Connections that the server worked on in one work phase; of user-level threads those that
    /// accept count as well.
    ConnectionsPerWorkPhase,
    /// Calls that waited for events, for each reply.
    WaitsPerReply,
    /// The server's memory, in MiB.
    MemoryMib,
    /// The page cache that is charged to the server, in MiB.
    PageCacheMib,
    /// Bodies that our server had in memory, of a hundred that it was asked for.
    BodyHitPercent,
    /// The share of its processors' time in which there was nothing to do, or in which it was
    /// withheld from the server.
    IdlePercent,
    /// The share in which there was nothing to do while something waited for a disk.
    DiskWaitPercent,
    /// The share that soft interrupts took.
    SoftirqPercent,
    /// The share of the time in which nothing of the server could run while something of it waited
    /// for a disk.
    BlockedPercent,
    /// MiB that the server read from disks in a second.
    DiskMibPerS,
    /// KiB of one such request to a disk.
    DiskReadKib,
    /// Microseconds of the generator's CPU time for a reply.
    ClientCpuUsPerReply,
    /// The share of the server's processor time in system calls for synchronisation, by S3's
    /// categories.
    SynchronisationPercent,
    /// The share in system calls for signals.
    SignalsPercent,
    /// The share in system calls for files.
    FilesPercent,
    /// The share in system calls that read and write.
    TransferPercent,
    /// The share in the server's own code and the C library.
    ProgramPercent,
}

impl Measure {
    /// Whether a larger figure is the better one.
    pub fn better_is_more(self) -> bool {
        use Measure::{
            AcceptsPerPhase, AcceptsPerS, BodyHitPercent, ConnectionsPerWorkPhase, DiskReadKib,
            GoodputPerS, MbitPerS, RepliesPerS,
        };
        let more = [
            AcceptsPerPhase,
            AcceptsPerS,
            BodyHitPercent,
            ConnectionsPerWorkPhase,
            DiskReadKib,
            GoodputPerS,
            MbitPerS,
            RepliesPerS,
        ];
        more.contains(&self)
    }

    /// Whether only looking into a server tells it.
    pub fn is_of_stacks(self) -> bool {
        use Measure::{
            FilesPercent, ProgramPercent, SignalsPercent, SynchronisationPercent, TransferPercent,
        };
        let all =
            [FilesPercent, ProgramPercent, SignalsPercent, SynchronisationPercent, TransferPercent];
        all.contains(&self)
    }

    /// The least that a figure counts as, so that there is a ratio to nothing, and a server that
    /// broke down is not left out: one reply or one drop in a second, a thousandth of the time, and
    /// a recovery within a second, are as good as none. Nothing of what cannot be 0 where it is
    /// known.
    pub fn least(self) -> f64 {
        use Measure::{
            AcceptsPerS, BlockedPercent, BodyHitPercent, DiskWaitPercent, DropsPerS, GoodputPerS,
            IdlePercent, MbitPerS, OpenConnections, OverflowsPerS, RecoveryS, RepliesPerS,
            RequestDropsPerS, ShedShare, SoftirqPercent, TimeoutShare, WaitsPerReply, WastedShare,
        };
        match self {
            GoodputPerS | RepliesPerS | AcceptsPerS | OpenConnections => 1.0,
            DropsPerS | OverflowsPerS | RequestDropsPerS => 1.0,
            MbitPerS => 0.01,
            WaitsPerReply | ShedShare | TimeoutShare | WastedShare => 0.001,
            RecoveryS => 1.0,
            BodyHitPercent => 0.1,
            IdlePercent | BlockedPercent | DiskWaitPercent | SoftirqPercent => 0.1,
            of_stacks if of_stacks.is_of_stacks() => 0.1,
            _ => 0.0,
        }
    }
}
