//! What tests with real clients and real files share: a served directory that vanishes with its
//! test, a client that tells a whole body from a short one, and other programs with a time limit.

// Each test file uses its own part of this.
#![allow(dead_code, unused_imports, unused_macros)]

pub mod chromium;
pub mod devtools;
pub mod exchange;
pub mod served;

use std::process::{Command, Output};

/// Longest time that another program gets, in seconds.
const PROGRAM_SECONDS_MAX: &str = "300";

/// Mounts test bodies that take an architecture's name, once for each named architecture, in the
/// tier that stands before it. Bodies behind `full` are in that tier on all of them.
macro_rules! on_architectures {
    (@each [$($tier:ident $module:ident = $name:literal),+ $(,)?] $bodies:tt) => {
        $($crate::common_programs::on_architectures!(@one $tier $module $name $bodies);)+
    };
    (@one $tier:ident $module:ident $name:literal
     { $([$($body:ident),+ $(,)?])? $(full [$($slow:ident),+ $(,)?])? }) => {
        mod $module {
            $($(flyball_testkit::test_in_tier! { $tier $body { super::$body($name); } })+)?
            $($(flyball_testkit::test_in_tier! { full $slow { super::$slow($name); } })+)?
        }
    };
    (@over_tls [$($tier:ident $module:ident = $name:literal),+ $(,)?] $bodies:tt) => {
        mod over_tls {
            $($crate::common_programs::on_architectures!(@one_over_tls $module $name $bodies);)+
        }
    };
    (@one_over_tls $module:ident $name:literal { $($body:ident),+ $(,)? }) => {
        mod $module {
            $(flyball_testkit::test_in_tier! { full $body {
                super::super::$body(concat!($name, " over TLS"));
            } })+
        }
    };
    ($architectures:tt $($bodies:tt)+) => {
        $crate::common_programs::on_architectures!(@each $architectures { $($bodies)+ });
    };
}
pub(crate) use on_architectures;

/// Mounts them once for each architecture there is.
macro_rules! on_every_architecture {
    (@by $way:ident $bodies:tt) => {
        $crate::common_programs::on_architectures! {
            @$way
            [
                full sped = "sped",
                full symped = "symped",
                full shared_symped = "shared-symped",
                fast n_copy = "n-copy",
                fast amped = "amped",
                full mp = "mp",
                fast mt = "mt",
                full thread_per_connection = "thread-per-connection",
                full knot_c = "knot-c",
                full knot_a = "knot-a",
                fast watpipe = "watpipe",
                full tux = "tux",
                fast uring = "uring",
            ]
            $bodies
        }
    };
    ($($bodies:tt)+) => {
        $crate::common_programs::on_every_architecture!(@by each { $($bodies)+ });
    };
}
pub(crate) use on_every_architecture;

/// Mounts them once for each architecture there is, where clients speak TLS: all are in the full
/// tier.
macro_rules! on_every_architecture_over_tls {
    ($($bodies:tt)+) => {
        $crate::common_programs::on_every_architecture!(@by over_tls { $($bodies)+ });
    };
}
pub(crate) use on_every_architecture_over_tls;

/// Whether all of these programs are here. Says so when they are not, and fails in the build that
/// must have them.
pub fn have(programs: &[&str]) -> bool {
    let missing = |program: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        !std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    };
    let missing: Vec<_> = programs.iter().filter(missing).collect();
    if missing.is_empty() {
        return true;
    }
    flyball_testkit::skip(&format!("{missing:?} not installed"));
    false
}

/// A program that is ended when it takes too long, and that asks no proxy and nobody's settings.
pub fn program(name: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PROGRAM_SECONDS_MAX, name]);
    for variable in ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C");
    command
}

/// Runs a program that must succeed; what it wrote to standard output and standard error.
pub fn run(command: &mut Command) -> (String, String) {
    let output = command.output().expect("the program starts");
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    (out, err)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Bytes that look random, do not compress, and are the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A small generator (xorshift64) for choices that a test must be able to make again.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
