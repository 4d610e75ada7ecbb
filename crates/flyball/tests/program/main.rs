//! What the program does, seen from outside: as a process, on real sockets. All in one program of
//! tests, which is linked once, and whose tests wait beside one another.

#![forbid(unsafe_code)]

mod common;

mod architectures {
    mod amped_helpers;
    mod mechanisms;
    mod offloaded_work;
    mod overlapping_operations;
    mod shared_symped;
    mod uring;
    mod user_threads;
    mod watpipe;
}

mod backends {
    mod specweb99;
    mod unreachable;
}

mod caches {
    mod host_roots;
    mod mapped_files;
    mod memory_limit;
    mod pinned;
    mod policies;
    mod replaced_roots;
    mod simulate;
    mod warmed_and_locked;
}

mod lab {
    mod interrupted;
    mod program;
    mod switches;
    mod tune;
}

mod https {
    mod acme;
    mod certificates;
    mod client_rules;
    mod clients;
    mod ends;
    mod host_roots;
    mod listeners;
    mod one_line;
    mod private_files;
    mod scanner;
    mod shown;
    mod slow;
    mod tickets;
    mod told;
    mod transport;
}

mod load {
    mod logs_and_filesets;
    mod program;
    mod secure;
    mod terminal;
}

mod observability {
    mod accept_queues;
    mod access_log;
    mod admin;
    mod hostile_admin_requests;
    mod own_socket;
    mod request_traces;
    mod site_logs;
    mod site_times;
    mod top;
}

mod resources {
    mod client_limits;
    mod descriptors;
    mod governor;
    mod huge_listings;
    mod idle_connections;
    mod system_calls;
}

mod sandbox {
    mod backends;
    mod error_pages;
    mod over_tls;
    mod processes;
    mod rights;
    #[cfg(target_arch = "x86_64")]
    mod rings;
}

mod settings {
    mod authorities;
    mod certificates;
    mod command_line;
    mod examples;
    mod explain;
    mod file;
    mod generated_documents;
    mod honoured_by_architectures;
    mod hostile_files;
    mod include;
    mod listeners;
    mod misplaced;
    mod readme;
    mod secret_files;
    mod shown_elsewhere;
    mod table;
    mod together;
    mod unreadable_files;
    mod what_to_type;
}

mod supervision {
    mod clock_jumps;
    mod ctl;
    mod early_worker_exits;
    mod generations;
    mod isolated_processes;
    mod killed_workers;
    mod listeners;
    mod machine_faults;
    mod master;
    mod reload;
    mod responders;
    pub(crate) mod systemd;
    mod titles;
    mod unix_sockets;
    mod upgrade;
}
