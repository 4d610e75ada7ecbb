//! The `flyball` program: one file per subcommand under `commands`.
#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use flyball::cli::{self, Command};

/// So that a full cache takes what its limit says.
#[global_allocator]
static ALLOCATOR: flyball_sys::alloc::Allocator = flyball_sys::alloc::Allocator;

fn main() -> ExitCode {
    let arguments = cli::meant(std::env::args_os());
    if arguments.get(1).is_some_and(|command| command == "serve") {
        // One that comes before the master listens for it shall not end the server.
        flyball_sys::signal::hold();
        flyball_sys::inherit::note();
        flyball_sys::title::prepare();
        if flyball_server::has_secrets() {
            // What ran before the upgrade was hidden, which ends with exec. A title needs the
            // memory that is closed to this process itself by then.
            let _ = flyball_sys::process::hide_memory();
        }
    }
    match cli::parse(&arguments) {
        Ok(Command::Serve(typed)) => commands::serve::run(typed, arguments),
        Ok(Command::Check(typed)) => commands::check::run(typed),
        Ok(Command::Explain { typed, keys, json }) => commands::explain::run(&typed, &keys, json),
        #[cfg(feature = "acme")]
        Ok(Command::AcmeAgent) => commands::acme_agent::run(),
        #[cfg(feature = "acme")]
        Ok(Command::Cert(asked)) => commands::cert::run(&asked),
        Ok(Command::Arch { json }) => commands::arch::run(json),
        Ok(Command::Simulate(asked)) => commands::cache::run(&asked),
        #[cfg(feature = "load")]
        Ok(Command::Fileset(asked)) => commands::fileset::run(&asked),
        #[cfg(feature = "lab")]
        Ok(Command::Lab(asked)) => commands::lab::run(&asked),
        #[cfg(feature = "tune")]
        Ok(Command::Tune(asked)) => commands::tune::run(&asked),
        #[cfg(feature = "load")]
        Ok(Command::Load(asked)) => commands::load::run(&asked),
        Ok(Command::Ctl { socket, ask }) => commands::ctl::run(socket, &ask),
        Ok(Command::Top(asked)) => commands::top::run(&asked),
        Ok(Command::Trust(asked)) => commands::trust::run(&asked),
        Ok(Command::Docs(document)) => commands::docs::run(&document),
        Err(failure) => failure.report(),
    }
}
