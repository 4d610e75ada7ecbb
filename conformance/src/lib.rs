//! What is true of every architecture: `tests/conformance` holds the test bodies, each mounted once
//! per architecture. This library is empty.

#![forbid(unsafe_code)]
