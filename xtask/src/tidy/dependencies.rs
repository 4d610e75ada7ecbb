//! Who may depend on whom, and why.

use super::Finding;
use super::tree::Tree;
use super::workspace::{Dependency, Kind, Package};

/// A crate of the product and the only packages that it may depend on, each with its reason.
struct Allowed {
    name: &'static str,
    /// What the crate must stay free of.
    stays: &'static str,
    packages: &'static [(&'static str, &'static str)],
}

const PRODUCT: &[Allowed] = &[
    Allowed {
        name: "flyball-http",
        stays: "free of input and output",
        packages: &[
            ("bytes", "owned handles to shared memory, no input or output"),
            ("httparse", "parses heads, no input or output"),
            ("httpdate", "formats and parses dates that it is given"),
            ("memchr", "searches bytes"),
        ],
    },
    Allowed {
        name: "flyball-sys",
        stays: "below everything and without HTTP",
        packages: &[
            ("bytes", "segments that the kernel reads while others hold them"),
            ("corosensei", "switches stacks, for user-level threads"),
            ("io-uring", "the layout of the rings"),
            ("landlock", "rules of which files a process may open"),
            ("libc", "calls and constants that rustix has not"),
            ("rustix", "system calls without unsafe"),
            ("seccompiler", "filters of system calls"),
            ("tikv-jemallocator", "memory that is used again in the sizes that caches need"),
        ],
    },
    Allowed {
        name: "flyball-tls",
        stays: "free of sockets, files and a clock",
        packages: &[
            ("aws-lc-rs", "seals tickets and derives their keys"),
            ("rcgen", "certificates of this machine's own authority"),
            ("rustls", "the protocol, behind our own sessions"),
            ("rustls-pki-types", "certificates and keys as PEM"),
        ],
    },
    Allowed {
        name: "flyball-acme",
        stays: "a process of its own, without the server",
        packages: &[
            ("flyball-http", "the client's end of the protocol"),
            ("flyball-sys", "the error log and the clock"),
            ("flyball-tls", "what a certificate says of itself"),
            ("base64ct", "decodes keys of external accounts"),
            ("bytes", "bodies, as the ACME client wants them"),
            ("http", "requests and answers, as the ACME client wants them"),
            ("httparse", "the fields of an answer"),
            ("httpdate", "Retry-After as a date"),
            ("instant-acme", "the ACME client; nothing else may bring tokio"),
            ("rcgen", "requests for certificates, and challenge certificates"),
            ("rustls", "TLS to authorities"),
            ("rustls-native-certs", "the system's roots"),
            ("serde", "messages and the storage"),
            ("serde_json", "messages and the storage"),
        ],
    },
    Allowed {
        name: "flyball-module",
        stays: "what authors of modules depend on, and nothing else",
        packages: &[("libc", "the dynamic linker")],
    },
    Allowed {
        name: "flyball-site",
        stays: "away from clients' sockets and architectures",
        packages: &[
            ("flyball-http", "requests, conditions, ranges and heads"),
            ("flyball-module", "the trait of modules"),
            ("flyball-sys", "files, pipes and backend sockets"),
            ("argon2", "verifies passwords"),
            ("base64ct", "decodes logins"),
            ("bcrypt", "verifies passwords"),
            ("blake2", "the keyed hash of a login"),
            ("brotli", "codes bodies"),
            ("crc32fast", "adds up bodies for `digest-path`"),
            ("bytes", "bodies in memory"),
            ("flate2", "codes bodies"),
            ("hashbrown", "lookup by borrowed keys without allocation"),
            ("md-5", "verifies passwords of older files"),
            ("memchr", "searches bytes"),
            ("mime_guess", "the maintained table of media types"),
            ("pulldown-cmark", "Markdown as CommonMark defines it"),
            ("regex", "patterns of paths, in linear time"),
            ("regex-automata", "whether a pattern fits any path"),
            ("regex-syntax", "the alternatives of a pattern"),
            ("serde_json", "reads access logs of JSON"),
            ("sha-crypt", "verifies passwords of older files"),
            ("zstd", "codes bodies"),
        ],
    },
    Allowed {
        name: "flyball-observe",
        stays: "without sites and connections: it is told facts",
        packages: &[
            ("flyball-http", "requests, statuses and states"),
            ("flyball-sys", "shared memory, channels and log files"),
            ("serde_json", "timelines as JSON, escaped right"),
        ],
    },
    Allowed {
        name: "flyball-conn",
        stays: "without system calls, a clock and an architecture's name",
        packages: &[
            ("flyball-http", "the machine that it drives"),
            ("flyball-observe", "what is counted, timed and logged"),
            ("flyball-site", "the answers to its asks"),
            ("flyball-sys", "types of descriptors, mappings and shared counters"),
            ("flyball-tls", "what a connection's bytes are sealed by"),
        ],
    },
    Allowed {
        name: "flyball-arch",
        stays: "about waiting and nothing else",
        packages: &[
            ("flyball-conn", "the connections that it drives"),
            ("flyball-governor", "what holds for a loop that has more to do than it can"),
            ("flyball-http", "the machine that it drives"),
            ("flyball-observe", "what is counted, timed and logged"),
            ("flyball-site", "the answers to its asks"),
            ("flyball-sys", "the ways to wait"),
            ("flyball-tls", "what a listening socket's connections speak"),
        ],
    },
    Allowed {
        name: "flyball-server",
        stays: "above architectures, and without one's name where a trait can say it",
        packages: &[
            ("flyball-acme", "what the agent that gets certificates is told, and tells"),
            ("flyball-arch", "the architectures that it runs, and their settings"),
            ("flyball-http", "the machine that answers for the admin process"),
            ("flyball-observe", "what the admin process tells, and the log process"),
            ("flyball-site", "sites, which are opened before the first fork"),
            ("flyball-sys", "processes, signals, sockets and rights"),
            ("flyball-tls", "certificates, which are read before the first fork"),
            ("bytes", "answers of the admin process"),
            ("serde_json", "the JSON of /status"),
        ],
    },
    Allowed { name: "flyball-governor", stays: "pure: samples in, decisions out", packages: &[] },
    Allowed {
        name: "flyball-stats",
        stays: "free of input and output",
        packages: &[("fastrand", "seeded draws"), ("serde", "intervals in verdicts")],
    },
    Allowed {
        name: "flyball-lab",
        stays: "free of the server and of the generator, which it starts as processes",
        packages: &[
            ("flyball-stats", "how sure a figure is"),
            ("fastrand", "a seeded order, and seeded draws"),
            ("fuser", "a disk that is slow on purpose"),
            ("rustix", "signals to all processes of a server"),
            ("serde", "reads definitions and runs, writes verdicts"),
            ("serde_json", "runs and verdicts"),
            ("signal-hook", "undoes what was set up after Ctrl-C"),
            ("strsim", "the nearest of names"),
            ("toml", "definitions"),
        ],
    },
    Allowed {
        name: "flyball-load",
        stays: "a client: without the server",
        packages: &[
            ("flyball-http", "the client's end of the protocol"),
            ("flyball-stats", "how sure a difference of two runs is"),
            ("flyball-sys", "sockets, events and clocks"),
            ("flyball-tls", "the client's end of TLS"),
            ("fastrand", "random numbers that a seed repeats"),
            ("hdrhistogram", "mergeable distributions of times"),
            ("rustls-native-certs", "the system's roots"),
            ("serde_json", "the JSON of reports"),
        ],
    },
    Allowed {
        name: "flyball",
        stays: "without logic of its own",
        packages: &[
            ("flyball-acme", "the agent that gets certificates"),
            ("flyball-http", "limits"),
            ("flyball-load", "the load generator"),
            ("flyball-site", "settings of sites"),
            ("flyball-sys", "addresses and processes"),
            ("flyball-arch", "the registry, and the settings' types"),
            ("flyball-server", "the server that it runs and controls"),
            ("flyball-lab", "experiments and their statistics"),
            ("clap", "the command line"),
            ("clap_complete", "completions for shells"),
            ("clap_mangen", "pages of the manual"),
            ("ratatui", "the screens of `flyball top` and `flyball load`"),
            ("serde_json", "the JSON of `flyball arch`"),
            ("toml", "the configuration file"),
        ],
    },
];

/// Members that only tests and developers use.
const DEV_ONLY: &[&str] = &[
    "flyball-testkit",
    "conformance",
    "flyball-example-module",
    "flyball-fuzz",
    "flyball-null",
    "xtask",
];

/// The dependency table is kept, and every member of the workspace is in it.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Finding> {
    if DEV_ONLY.contains(&package.name.as_str()) {
        return Vec::new();
    }
    let Some(allowed) = PRODUCT.iter().find(|allowed| allowed.name == package.name) else {
        return vec![Finding::new(
            &package.manifest,
            1,
            format!("`{}` is not in the dependency table", package.name),
            "say in xtask/src/tidy/dependencies.rs what it may depend on",
        )];
    };
    let shipped = package.dependencies.iter().filter(|dependency| dependency.kind != Kind::Dev);
    shipped.filter_map(|dependency| refuse(package, allowed, dependency)).collect()
}

fn refuse(package: &Package, allowed: &Allowed, dependency: &Dependency) -> Option<Finding> {
    let name = dependency.name.as_str();
    let instead = if dependency.kind == Kind::Build {
        "a build needs nothing but Rust and a C compiler; do without a build script".to_string()
    } else if DEV_ONLY.contains(&name) {
        "it is for tests: make it a dev-dependency".to_string()
    } else if allowed.packages.iter().any(|(package, _)| *package == name) {
        return None;
    } else {
        format!(
            "the crate stays {}: do without, or add it with a reason to \
             xtask/src/tidy/dependencies.rs",
            allowed.stays
        )
    };
    let what = format!("`{}` must not depend on `{name}`", package.name);
    Some(Finding::new(&package.manifest, 1, what, instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, dependencies: &[(&str, Kind)]) -> Vec<String> {
        let dependencies = dependencies
            .iter()
            .map(|(name, kind)| Dependency { name: name.to_string(), kind: *kind })
            .collect();
        let manifest = "Cargo.toml".to_string();
        let package = Package { name: name.into(), manifest, dependencies, roots: Vec::new() };
        let tree = Tree { packages: vec![package], ..Tree::default() };
        check(&tree).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_crate_may_only_have_its_own_row_of_the_table() {
        let told = findings("flyball-http", &[("memchr", Kind::Normal), ("rustix", Kind::Normal)]);
        assert_eq!(told, ["`flyball-http` must not depend on `rustix`"]);
        let told = findings("flyball-sys", &[("flyball-http", Kind::Normal)]);
        assert_eq!(told, ["`flyball-sys` must not depend on `flyball-http`"]);
        assert!(findings("flyball-arch", &[("flyball-site", Kind::Normal)]).is_empty());
    }

    #[test]
    fn what_is_for_tests_is_only_a_dev_dependency() {
        assert!(findings("flyball-arch", &[("flyball-testkit", Kind::Dev)]).is_empty());
        let told = findings("flyball-arch", &[("flyball-testkit", Kind::Normal)]);
        assert_eq!(told, ["`flyball-arch` must not depend on `flyball-testkit`"]);
        assert!(findings("conformance", &[("flyball-testkit", Kind::Normal)]).is_empty());
    }

    #[test]
    fn a_member_that_the_table_does_not_know_is_a_finding() {
        assert_eq!(findings("flyball-new", &[]), ["`flyball-new` is not in the dependency table"]);
    }
}
