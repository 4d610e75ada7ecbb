//! The laboratory: experiments of the papers as definitions, contestants that are started as
//! processes, runs in an order that chance decides, statistics that say how sure a figure is, and
//! verdicts by predicates that were written down before the run.
//!
//! Nothing here links the server or the generator: both are programs that the lab starts, so that
//! a peer and our own server are measured by the same means.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod catalogue;
pub mod contestant;
pub mod definition;
pub mod generator;
pub mod host;
pub mod knee;
pub mod laboratory;
mod nearest;
pub mod noise;
pub mod outcome;
pub mod plan;
pub mod profile;
pub mod report;
pub mod run;
pub mod schedule;
pub mod space;
pub mod tune;
pub mod verdict;
pub mod white_box;
