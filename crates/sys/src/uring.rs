//! A completion ring (io_uring).
