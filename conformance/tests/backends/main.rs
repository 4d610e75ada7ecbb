//! What answers in the place of files: programs, servers behind the server, and modules, with real
//! ones and with those that fail in every way.

#![forbid(unsafe_code)]

#[path = "../common_programs/mod.rs"]
mod common_programs;

mod aborts;
mod backend_faults;
mod broken_answers;
mod coded;
mod dynamic;
mod encoded_paths;
mod fastcgi;
mod given_way;
mod house;
mod lab_work;
mod leaving;
mod links;
mod logged;
mod modules;
mod patterns;
mod pools;
mod program_files;
mod recipes;
mod responders;
mod rewritten;
mod rules;
mod sent;
mod spool;
