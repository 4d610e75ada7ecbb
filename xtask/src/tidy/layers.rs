//! What the source of a crate must not name: its layer's limits beyond its dependencies.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{File, Tree};
use crate::rust::paths::{Path, paths};

/// Where the architectures are, one directory each.
pub(crate) const ARCHITECTURES: &str = "crates/arch/src/architectures/";

/// Types of `std::net` that only hold an address.
const ADDRESSES: [&str; 6] =
    ["SocketAddr", "SocketAddrV4", "SocketAddrV6", "IpAddr", "Ipv4Addr", "Ipv6Addr"];

/// Paths that the product source of a crate must not contain.
struct Rule {
    directory: &'static str,
    banned: &'static [&'static str],
    instead: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        directory: "crates/http/src/",
        banned: &["std::net", "std::fs", "std::thread", "Instant", "SystemTime::now"],
        instead: "the machine waits for nothing: take bytes, answers and the time as arguments",
    },
    Rule {
        directory: "crates/governor/src/",
        banned: &["std::net", "std::fs", "std::thread", "Instant", "SystemTime::now"],
        instead: "decisions wait for nothing: take samples and the time as arguments",
    },
    Rule {
        directory: "crates/stats/src/",
        banned: &["std::net", "std::fs", "std::thread", "Instant", "SystemTime::now"],
        instead: "statistics wait for nothing: take samples as arguments",
    },
    Rule {
        directory: "crates/tls/src/",
        banned: &["std::net", "std::fs", "std::thread", "Instant", "SystemTime::now"],
        instead: "a session waits for nothing: take bytes and the time as arguments",
    },
    Rule {
        directory: "crates/site/src/",
        banned: &["libc", "rustix", "std::net", "unix::net", "std::fs", "std::process"],
        instead: "only sys makes system calls: add a wrapper there",
    },
    Rule {
        directory: "crates/observe/src/",
        banned: &["libc", "rustix", "std::net", "unix::net", "std::fs", "std::process"],
        instead: "only sys makes system calls: add a wrapper there",
    },
    Rule {
        directory: "crates/conn/src/",
        banned: &[
            "libc",
            "rustix",
            "std::net",
            "unix::net",
            "std::fs",
            "std::process",
            "std::thread",
            "Instant",
            "SystemTime",
            "flyball_sys::clock",
            "flyball_sys::file",
            "flyball_sys::net",
            "flyball_sys::process",
        ],
        instead: "a connection makes no system call: say what is needed, and take the time",
    },
    Rule {
        directory: "crates/arch/src/",
        banned: &["libc", "rustix", "std::net", "unix::net", "std::fs", "std::process"],
        instead: "only sys makes system calls: add a wrapper there",
    },
    Rule {
        directory: "crates/server/src/",
        banned: &["libc", "rustix", "std::net", "unix::net", "std::fs", "std::process"],
        instead: "only sys makes system calls: add a wrapper there",
    },
];

/// No crate reaches around its layer, and no architecture names another.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let ruled = RULES.iter().flat_map(|rule| {
        let files = tree.rust().filter(|file| file.path.starts_with(rule.directory));
        files.flat_map(|file| check_rule(rule, file))
    });
    ruled.chain(check_architectures(tree)).collect()
}

fn check_rule(rule: &Rule, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in product_paths(file) {
        let banned = rule.banned.iter().find(|banned| path.contains(banned));
        if let Some(banned) = banned.filter(|_| !is_address(&path)) {
            let what = format!("`{banned}` does not belong here");
            findings.push(Finding::new(&file.path, path.line, what, rule.instead));
        }
    }
    findings
}

/// Addresses are plain data, which any crate may name.
fn is_address(path: &Path) -> bool {
    ADDRESSES.iter().any(|address| path.contains(&format!("std::net::{address}")))
}

fn check_architectures(tree: &Tree) -> Vec<Finding> {
    let files: Vec<(&str, &File)> =
        tree.rust().filter_map(|file| Some((architecture(&file.path)?, file))).collect();
    let architectures: BTreeSet<&str> = files.iter().map(|(name, _)| *name).collect();
    let mut findings = Vec::new();
    for (name, file) in &files {
        for path in product_paths(file) {
            let other = architectures.iter().find(|other| {
                *other != name
                    && (path.contains(&format!("super::{other}"))
                        || path.contains(&format!("architectures::{other}")))
            });
            if let Some(other) = other {
                findings.push(Finding::new(
                    &file.path,
                    path.line,
                    format!("an architecture names another: `{other}`"),
                    "repeat the lines, or move what both need next to architectures/",
                ));
            }
        }
    }
    findings
}

/// The architecture in whose directory `path` lies.
pub(super) fn architecture(path: &str) -> Option<&str> {
    Some(path.strip_prefix(ARCHITECTURES)?.split_once('/')?.0)
}

fn product_paths(file: &File) -> Vec<Path> {
    let all = paths(&file.tokens());
    all.into_iter().filter(|path| !file.is_test(path.line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let findings = check(&Tree::of(files));
        findings.iter().map(|finding| format!("{}: {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn the_machine_has_no_clock_no_files_and_no_sockets() {
        let source = "use std::{\n  fs,\n  time::{Duration, Instant},\n};\n\
                      fn f() { SystemTime::now(); }\n// std::net\n\
                      #[cfg(test)] mod tests { use std::net::TcpStream; }\n";
        assert_eq!(
            findings(&[("crates/http/src/a.rs", source)]),
            [
                "2: `std::fs` does not belong here",
                "3: `Instant` does not belong here",
                "5: `SystemTime::now` does not belong here",
            ]
        );
    }

    #[test]
    fn addresses_are_allowed_where_sockets_are_not() {
        let source = "use std::net::{IpAddr, SocketAddr};\nuse std::net::TcpStream;\nlibc::read();";
        let expected = ["2: `std::net` does not belong here", "3: `libc` does not belong here"];
        assert_eq!(findings(&[("crates/site/src/a.rs", source)]), expected);
        assert_eq!(findings(&[("crates/arch/src/a.rs", source)]), expected);
        assert!(findings(&[("crates/sys/src/a.rs", source)]).is_empty());
    }

    #[test]
    fn an_architecture_does_not_name_another_and_the_registry_does() {
        let told = findings(&[
            ("crates/arch/src/architectures/mod.rs", "mod sped; mod amped; use self::sped::Sped;"),
            ("crates/arch/src/architectures/sped/mod.rs", "use super::{Shared, amped::Amped};"),
            ("crates/arch/src/architectures/sped/part.rs", "use super::super::amped::helper::H;"),
            ("crates/arch/src/architectures/amped/mod.rs", "use crate::slots::Slots;"),
            ("crates/arch/src/architectures/amped/helper.rs", "use super::Amped;"),
        ]);
        let names = "1: an architecture names another: `amped`";
        assert_eq!(told, [names, names]);
    }
}
