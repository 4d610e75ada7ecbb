//! Clients that attack: those that hold what they are given, those that flood, and those whose
//! requests are made to cost much. What the server spends on each stays within a named bound, and
//! honest clients go on being served.
#![forbid(unsafe_code)]

#[path = "../common_programs/mod.rs"]
mod common_programs;

mod besieged;
mod bombs;
mod cuts;
mod floods;
mod holding;
mod programs;
