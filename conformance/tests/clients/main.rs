//! Real programs that ask: a browser, mirrors, and the clients that people use.

#![forbid(unsafe_code)]

#[path = "../common_programs/mod.rs"]
mod common_programs;

mod admin_page;
mod browser;
mod lab_report;
mod mirrors;
mod real_clients;
