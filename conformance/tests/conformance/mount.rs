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

    /// Whether its clients speak TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Runs a test body, and fails when the server has panicked by its end.
    pub(crate) fn run(&self, body: fn(&Mount)) {
        // With fewer processes than clients of all bodies at a time, one that is slow on a busy
        // machine would make room for another.
        let processes = if self.architecture == "mp" { "mp.processes = 96\n" } else { "" };
        let shared = self.shared.get_or_init(|| self.launch(&self.config(processes)).start());
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
    pub(crate) mount: &'static Mount,
    /// Theme and name of each body.
    pub(crate) bodies: &'static [(&'static str, &'static str)],
}

/// Every body is on each architecture of the program as it is by default, and once or more with
/// each line of settings; those that are mounted over TLS at all are so on each architecture.
pub(crate) fn assert_none_is_forgotten(mounts: &[&Mounted]) {
    let with = |chosen: &dyn Fn(&Mount) -> bool| -> BTreeSet<_> {
        mounts.iter().filter(|one| chosen(one.mount)).flat_map(|one| one.bodies).collect()
    };
    let (clear, secure) = (with(&|mount| !mount.is_secure), with(&|mount| mount.is_secure));
    assert!(!clear.is_empty() && !secure.is_empty());
    for architecture in architectures() {
        let bodies = |is_secure| {
            with(&|mount| {
                let is_plain = mount.settings.is_empty() && mount.is_secure == is_secure;
                mount.architecture == architecture && is_plain
            })
        };
        assert_eq!(bodies(false), clear, "on {architecture}");
        assert_eq!(bodies(true), secure, "on {architecture} over TLS");
    }
    let settings: BTreeSet<_> = mounts.iter().flat_map(|one| one.mount.settings).collect();
    assert_eq!(settings.len(), 5, "{settings:?}");
    for line in settings {
        assert_eq!(with(&|mount| mount.settings.contains(line)), clear, "with {line}");
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
/// groups for that, and are named by theme, which is a module, and function. The first two groups
/// depend on how bytes come and go: they are mounted over TLS too, beside those that are of TLS
/// alone. The second takes long there: the fast tier has it on two architectures.
macro_rules! for_each_architecture {
    ([$($one:tt)*] [$($two:tt)*] [$($three:tt)*] [$($four:tt)*] tls [$($own:tt)*]) => {
        for_each_architecture!(@secure [$($own)* $($one)*] [$($two)*]);
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
        static MOUNTS: &[&mount::Mounted] = &[
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
            &sped_tls::MOUNTED,
            &symped_tls::MOUNTED,
            &shared_symped_tls::MOUNTED,
            &n_copy_tls::MOUNTED,
            &n_copy_tls_bodies::MOUNTED,
            &amped_tls::MOUNTED,
            &amped_tls_bodies::MOUNTED,
            &mp_tls::MOUNTED,
            &mt_tls::MOUNTED,
            &mt_tls_bodies::MOUNTED,
            &thread_per_connection_tls::MOUNTED,
            &tux_tls::MOUNTED,
            &knot_c_tls::MOUNTED,
            &knot_a_tls::MOUNTED,
            &watpipe_tls::MOUNTED,
            &watpipe_tls_bodies::MOUNTED,
            &uring_tls::MOUNTED,
            &uring_tls_bodies::MOUNTED,
        ];
    };
    (@secure [$($one:tt)*] [$($two:tt)*]) => {
        mount!(full sped_tls "sped" tls $($one)* $($two)*);
        mount!(full symped_tls "symped" tls $($one)* $($two)*);
        mount!(full shared_symped_tls "shared-symped" tls $($one)* $($two)*);
        mount!(fast n_copy_tls "n-copy" tls $($one)*);
        mount!(fast n_copy_tls_bodies "n-copy" tls $($two)*);
        mount!(fast amped_tls "amped" tls $($one)*);
        mount!(full amped_tls_bodies "amped" tls $($two)*);
        mount!(full mp_tls "mp" tls $($one)* $($two)*);
        mount!(fast mt_tls "mt" tls $($one)*);
        mount!(full mt_tls_bodies "mt" tls $($two)*);
        mount!(full thread_per_connection_tls "thread-per-connection" tls $($one)* $($two)*);
        mount!(full tux_tls "tux" tls $($one)* $($two)*);
        mount!(full knot_c_tls "knot-c" tls $($one)* $($two)*);
        mount!(full knot_a_tls "knot-a" tls $($one)* $($two)*);
        mount!(fast watpipe_tls "watpipe" tls $($one)*);
        mount!(full watpipe_tls_bodies "watpipe" tls $($two)*);
        mount!(fast uring_tls "uring" tls $($one)*);
        mount!(fast uring_tls_bodies "uring" tls $($two)*);
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

/// Mounts bodies on one architecture, in this tier: with these lines of settings, or by default
/// where clients speak TLS. Bodies behind `full` are in that tier on all architectures.
macro_rules! mount {
    ($tier:ident $mount:ident $architecture:literal tls $($bodies:tt)*) => {
        mount!(@mounted $tier $mount (crate::mount::Mount::secure($architecture)) $($bodies)*);
    };
    ($tier:ident $mount:ident $architecture:literal [$($setting:literal),*] $($bodies:tt)*) => {
        mount!(@mounted $tier $mount
            (crate::mount::Mount::new($architecture, &[$($setting),*])) $($bodies)*);
    };
    (@mounted $tier:ident $mount:ident ($made:expr)
     $($theme:ident: [$($body:ident),* $(,)?] $(full [$($slow:ident),* $(,)?])?,)*) => {
        mod $mount {
            static MOUNT: crate::mount::Mount = $made;

            pub(crate) static MOUNTED: crate::mount::Mounted = crate::mount::Mounted {
                mount: &MOUNT,
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
