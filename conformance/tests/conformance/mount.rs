//! Where a test body is mounted: an architecture, how it waits, and its servers.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::OnceLock;

use flyball_testkit::{Client, Launch, Refused, Server, Site, binary, many, skip};

/// One architecture, with lines of settings that change how it waits.
pub(crate) struct Mount {
    architecture: &'static str,
    settings: &'static [&'static str],
    /// Whether clients speak TLS.
    is_secure: bool,
    /// The server of all bodies that are content with [`Mount::config`].
    shared: OnceLock<Result<Server, Refused>>,
}

impl Mount {
    pub(crate) const fn new(
        architecture: &'static str,
        settings: &'static [&'static str],
    ) -> Mount {
        Mount { architecture, settings, is_secure: false, shared: OnceLock::new() }
    }

    /// One architecture by default, where clients speak TLS.
    pub(crate) const fn secure(architecture: &'static str) -> Mount {
        Mount { architecture, settings: &[], is_secure: true, shared: OnceLock::new() }
    }

    /// The name of the architecture.
    pub(crate) fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Runs a test body, and fails when the server has panicked by its end.
    pub(crate) fn run(&self, body: fn(&Mount)) {
        let shared = self.shared.get_or_init(|| self.launch(&self.config("")).start());
        match shared {
            Ok(server) => {
                body(self);
                server.assert_sound();
            }
            Err(refused) if refused.is_unavailable() => skip(&refused.to_string()),
            Err(refused) => panic!("{} does not start: {refused}", self.architecture),
        }
    }

    /// The server that all bodies share.
    pub(crate) fn server(&self) -> &Server {
        match self.shared.get() {
            Some(Ok(server)) => server,
            _ => panic!("the body runs without a server"),
        }
    }

    /// A new connection to it.
    pub(crate) fn connect(&self) -> Client {
        self.server().connect()
    }

    /// A server of one's own: with the sites of the shared one, and these lines of settings.
    pub(crate) fn start(&self, settings: &str) -> Server {
        self.start_exactly(&self.config(settings))
    }

    /// A server of one's own, with these settings and sites.
    pub(crate) fn start_with_sites(&self, settings: &str, sites: &str) -> Server {
        self.start_exactly(&format!("{}{sites}", self.head(settings)))
    }

    fn start_exactly(&self, config: &str) -> Server {
        let started = self.launch(config).start();
        started.unwrap_or_else(|refused| panic!("it does not start: {refused}"))
    }

    fn launch(&self, config: &str) -> Launch {
        let launch = Launch::config(config);
        if self.is_secure { launch.secure() } else { launch }
    }

    fn head(&self, settings: &str) -> String {
        // Where a worker serves one connection at a time, one would not do; nor is it a setting.
        let settings = match self.architecture {
            "mp" => settings.replace("workers = 1\n", ""),
            _ => settings.to_owned(),
        };
        let own = self.settings.join("\n");
        format!("arch = \"{}\"\n{own}\n{settings}\n", self.architecture)
    }

    fn config(&self, settings: &str) -> String {
        let root = |below: &str| Site::shared().path(below).display().to_string();
        let sites = [
            ("*", root(""), "digest-path = \"/digest\""),
            ("exact.test", root("hosts/exact"), ""),
            ("*.wild.test", root("hosts/wild"), ""),
            ("list.test", root("list"), "listing = true"),
            ("dots.test", root(""), "hidden = true"),
            ("many.test", many().display().to_string(), "listing = true"),
        ];
        let site = |(host, root, more): (&str, String, &str)| {
            format!("[[site]]\nhosts = [\"{host}\"]\nroot = \"{root}\"\n{more}\n")
        };
        self.head(settings) + &sites.map(site).concat()
    }
}

/// What is mounted somewhere.
pub(crate) struct Mounted {
    pub(crate) architecture: &'static str,
    pub(crate) settings: &'static [&'static str],
    /// Theme and name of each body.
    pub(crate) bodies: &'static [(&'static str, &'static str)],
}

/// Every body is on each architecture of the program as it is by default, and once or more with
/// each line of settings.
pub(crate) fn assert_none_is_forgotten(mounts: &[&Mounted]) {
    let all: BTreeSet<_> = mounts.iter().flat_map(|mount| mount.bodies).collect();
    let with = |chosen: &dyn Fn(&Mounted) -> bool| -> BTreeSet<_> {
        mounts.iter().filter(|mount| chosen(mount)).flat_map(|mount| mount.bodies).collect()
    };
    for architecture in architectures() {
        let bodies = with(&|m| m.architecture == architecture && m.settings.is_empty());
        assert_eq!(bodies, all, "on {architecture}");
    }
    let settings: BTreeSet<_> = mounts.iter().flat_map(|mount| mount.settings).collect();
    assert_eq!(settings.len(), 5, "{settings:?}");
    for line in settings {
        assert_eq!(with(&|mount| mount.settings.contains(line)), all, "with {line}");
    }
}

/// The architectures that the program lists.
fn architectures() -> Vec<String> {
    let listed = Command::new(binary()).args(["arch", "--json"]).output().expect("it runs");
    let names = String::from_utf8(listed.stdout).expect("JSON is UTF-8");
    let names: Vec<String> = names
        .lines()
        .filter_map(|line| line.trim().strip_prefix("\"name\": \"")?.strip_suffix("\","))
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 13, "{names:?}");
    names
}

/// Mounts every body once on each architecture, and by pairs on the event mechanisms and other
/// settings that change how an architecture waits: each of them has every body once, and each
/// architecture that has a choice has every mechanism, but not with every body. Bodies are in four
/// groups for that, and are named by theme, which is a module, and function.
macro_rules! for_each_architecture {
    ([$($one:tt)*] [$($two:tt)*] [$($three:tt)*] [$($four:tt)*]) => {
        for_each_architecture!(@secure $($one)*);
        for_each_architecture!(@all $($one)* $($two)* $($three)* $($four)*);
        mount!(full sped_select "sped" ["events = \"select\""] $($one)* $($four)*);
        mount!(full amped_processes_select "amped"
            ["events = \"select\"", "amped.helper-kind = \"process\""] $($two)*);
        mount!(full knot_c_select "knot-c" ["events = \"select\""] $($three)*);
        mount!(full sped_poll "sped" ["events = \"poll\""] $($one)* $($three)*);
        mount!(full watpipe_poll "watpipe" ["events = \"poll\""] $($two)* $($four)*);
        mount!(full sped_epoll_edge "sped" ["events = \"epoll-edge\""] $($two)*);
        mount!(full amped_epoll_edge "amped" ["events = \"epoll-edge\""] $($one)*);
        mount!(full knot_a_epoll_edge "knot-a" ["events = \"epoll-edge\""] $($four)*);
        mount!(full watpipe_epoll_edge "watpipe" ["events = \"epoll-edge\""] $($three)*);
        mount!(full amped_processes "amped" ["amped.helper-kind = \"process\""]
            $($one)* $($three)* $($four)*);

        /// Every mount, for the test that none is forgotten.
        const MOUNTS: &[&mount::Mounted] = &[
            &sped::MOUNTED,
            &symped::MOUNTED,
            &shared_symped::MOUNTED,
            &n_copy::MOUNTED,
            &amped::MOUNTED,
            &mp::MOUNTED,
            &mt::MOUNTED,
            &thread_per_connection::MOUNTED,
            &tux::MOUNTED,
            &knot_c::MOUNTED,
            &knot_a::MOUNTED,
            &watpipe::MOUNTED,
            &uring::MOUNTED,
            &uring_basic::MOUNTED,
            &sped_select::MOUNTED,
            &amped_processes_select::MOUNTED,
            &knot_c_select::MOUNTED,
            &sped_poll::MOUNTED,
            &watpipe_poll::MOUNTED,
            &sped_epoll_edge::MOUNTED,
            &amped_epoll_edge::MOUNTED,
            &knot_a_epoll_edge::MOUNTED,
            &watpipe_epoll_edge::MOUNTED,
            &amped_processes::MOUNTED,
        ];
    };
    (@secure $($bodies:tt)*) => {
        secure!(full sped_tls "sped" $($bodies)*);
        secure!(full symped_tls "symped" $($bodies)*);
        secure!(full shared_symped_tls "shared-symped" $($bodies)*);
        secure!(fast n_copy_tls "n-copy" $($bodies)*);
        secure!(fast amped_tls "amped" $($bodies)*);
        secure!(full mp_tls "mp" $($bodies)*);
        secure!(fast mt_tls "mt" $($bodies)*);
        secure!(full thread_per_connection_tls "thread-per-connection" $($bodies)*);
        secure!(full tux_tls "tux" $($bodies)*);
        secure!(full knot_c_tls "knot-c" $($bodies)*);
        secure!(full knot_a_tls "knot-a" $($bodies)*);
        secure!(fast watpipe_tls "watpipe" $($bodies)*);
        secure!(fast uring_tls "uring" $($bodies)*);
    };
    (@all $($bodies:tt)*) => {
        mount!(full sped "sped" [] $($bodies)*);
        mount!(full symped "symped" [] $($bodies)*);
        mount!(full shared_symped "shared-symped" [] $($bodies)*);
        mount!(fast n_copy "n-copy" [] $($bodies)*);
        mount!(fast amped "amped" [] $($bodies)*);
        mount!(full mp "mp" [] $($bodies)*);
        mount!(fast mt "mt" [] $($bodies)*);
        mount!(full thread_per_connection "thread-per-connection" [] $($bodies)*);
        mount!(full tux "tux" [] $($bodies)*);
        mount!(full knot_c "knot-c" [] $($bodies)*);
        mount!(full knot_a "knot-a" [] $($bodies)*);
        mount!(fast watpipe "watpipe" [] $($bodies)*);
        mount!(fast uring "uring" [] $($bodies)*);
        mount!(full uring_basic "uring" ["uring.features = \"basic\""] $($bodies)*);
    };
}

/// Mounts bodies on one architecture with these lines of settings, in this tier. Bodies behind
/// `full` are in that tier on all architectures.
macro_rules! mount {
    ($tier:ident $mount:ident $architecture:literal [$($setting:literal),*]
     $($theme:ident: [$($body:ident),* $(,)?] $(full [$($slow:ident),* $(,)?])?,)*) => {
        mod $mount {
            static MOUNT: crate::mount::Mount =
                crate::mount::Mount::new($architecture, &[$($setting),*]);

            pub(crate) const MOUNTED: crate::mount::Mounted = crate::mount::Mounted {
                architecture: $architecture,
                settings: &[$($setting),*],
                bodies: &[$($((stringify!($theme), stringify!($body)),)*
                    $($((stringify!($theme), stringify!($slow)),)*)?)*],
            };

            $(mod $theme {
                $(flyball_testkit::test_in_tier! { $tier $body {
                    super::MOUNT.run(crate::$theme::$body);
                } })*
                $($(flyball_testkit::test_in_tier! { full $slow {
                    super::MOUNT.run(crate::$theme::$slow);
                } })*)?
            })*
        }
    };
}

/// Mounts bodies on one architecture whose clients speak TLS, in this tier.
macro_rules! secure {
    ($tier:ident $mount:ident $architecture:literal
     $($theme:ident: [$($body:ident),* $(,)?] $(full [$($slow:ident),* $(,)?])?,)*) => {
        mod $mount {
            static MOUNT: crate::mount::Mount = crate::mount::Mount::secure($architecture);

            $(mod $theme {
                $(flyball_testkit::test_in_tier! { $tier $body {
                    super::MOUNT.run(crate::$theme::$body);
                } })*
                $($(flyball_testkit::test_in_tier! { full $slow {
                    super::MOUNT.run(crate::$theme::$slow);
                } })*)?
            })*
        }
    };
}
