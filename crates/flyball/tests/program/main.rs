//! What the program does, seen from outside: as a process, on real sockets. All in one program of
//! tests, which is linked once, and whose tests wait beside one another.

#![forbid(unsafe_code)]

mod common;

mod ablations;
mod access_log;
mod admin;
mod admin_requests;
mod beside;
mod budgets;
mod cache_memory;
mod cache_simulate;
mod cli;
mod client_limits;
mod clock;
mod ctl;
mod descriptors;
mod documents;
mod early_ends;
mod examples;
mod explain;
mod faults;
mod generations;
mod held;
mod helpers;
mod honoured;
mod interrupted;
mod knobs;
mod lab;
mod links;
mod listings;
mod load;
mod load_logs;
mod load_terminal;
mod mapped;
mod memory;
mod overlaps;
mod peers;
mod pinned;
mod policies;
mod reload;
mod ring;
mod roots;
mod sandbox;
mod sandbox_backends;
#[cfg(target_arch = "x86_64")]
mod sandbox_rings;
mod settings_file;
mod settings_hostile;
mod settings_table;
mod settings_together;
mod shared_symped;
mod specweb99;
mod supervision;
mod systemd;
mod top;
mod trace;
mod tune;
mod upgrade;
mod user_threads;
mod watpipe;
