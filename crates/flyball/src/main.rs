//! The `flyball` program: one file per subcommand under `commands`.
#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

use flyball::cli::{self, Command};

fn main() -> ExitCode {
    match cli::parse(std::env::args_os()) {
        Ok(Command::Serve(typed)) => commands::serve::run(typed),
        Ok(Command::Check(typed)) => commands::check::run(typed),
        Ok(Command::Explain { typed, keys, json }) => commands::explain::run(&typed, &keys, json),
        Ok(Command::Arch { json }) => commands::arch::run(json),
        Ok(Command::Simulate(asked)) => commands::cache::run(&asked),
        Ok(Command::Ctl { socket, ask }) => commands::ctl::run(&socket, &ask),
        Ok(Command::Docs) => commands::docs::run(),
        Err(failure) => failure.report(),
    }
}
