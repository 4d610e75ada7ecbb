//! `flyball top`: what a running server does, in a terminal.

use std::process::ExitCode;

use flyball::top::{self, Top};

pub(crate) fn run(asked: &Top) -> ExitCode {
    match top::run(asked, super::print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("flyball: {}", why.trim_end());
            ExitCode::FAILURE
        }
    }
}
