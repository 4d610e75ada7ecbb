//! Clients that attack: those that hold what they are given, those that flood, and those whose
//! requests are made to cost much. What the server spends on each stays within a named bound, and
//! honest clients go on being served.
#![forbid(unsafe_code)]

#[path = "../common_programs/mod.rs"]
mod common_programs;

/// Mounts attacks once for each architecture that holds connections in a way of its own: `symped`,
/// `n-copy` and `amped` hold them as `sped` does.
macro_rules! on_each_way_to_hold {
    ($($bodies:tt)+) => {
        crate::common_programs::on_architectures! {
            [
                full sped = "sped",
                full shared_symped = "shared-symped",
                full mp = "mp",
                fast mt = "mt",
                full thread_per_connection = "thread-per-connection",
                full knot_c = "knot-c",
                full knot_a = "knot-a",
                fast watpipe = "watpipe",
                full tux = "tux",
                fast uring = "uring",
            ]
            $($bodies)+
        }
    };
}

/// The same where clients speak TLS, on architectures that wait in three different ways: all are in
/// the full tier.
macro_rules! on_ways_to_hold_over_tls {
    ($($bodies:tt)+) => {
        crate::common_programs::on_architectures! {
            @over_tls
            [
                full n_copy = "n-copy",
                full mt = "mt",
                full uring = "uring",
            ]
            { $($bodies)+ }
        }
    };
}

mod besieged;
mod bombs;
mod cuts;
mod floods;
mod handshakes;
mod holding;
mod programs;
mod proxy_cuts;
