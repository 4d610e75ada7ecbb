//! Every system call of Flyball and every unsafe line.
pub mod net;
