//! A server and its clients in virtual time, from a seed, to judge the rules of the governor by.

mod bars;
mod clients;
mod cpu;
mod engine;
mod policy;
mod properties;
mod regret;
mod report;
mod server;
mod traps;
mod validation;
mod workload;
