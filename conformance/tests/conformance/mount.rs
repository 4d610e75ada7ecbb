//! Where a test body is mounted: one architecture with one event mechanism, and its servers.

use std::sync::OnceLock;

use flyball_testkit::{Client, Launch, Refused, Server, Site, many, skip};

/// One architecture with one event mechanism, or with settings of its own in the place of that.
pub(crate) struct Mount {
    architecture: &'static str,
    events: &'static str,
    /// The server of all bodies that are content with [`Mount::config`].
    shared: OnceLock<Result<Server, Refused>>,
}

impl Mount {
    pub(crate) const fn new(architecture: &'static str, events: &'static str) -> Mount {
        Mount { architecture, events, shared: OnceLock::new() }
    }

    /// The name of the architecture.
    pub(crate) fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// Runs a test body, and fails when the server has panicked by its end.
    pub(crate) fn run(&self, body: fn(&Mount)) {
        let shared = self.shared.get_or_init(|| Launch::config(self.config("")).start());
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
        let started = Launch::config(config).start();
        started.unwrap_or_else(|refused| panic!("it does not start: {refused}"))
    }

    fn head(&self, settings: &str) -> String {
        // The default is not written: an architecture without event mechanism would warn of it.
        let events = match self.events {
            "epoll" => String::new(),
            settings if settings.contains('=') => format!("{settings}\n"),
            other => format!("events = \"{other}\"\n"),
        };
        // Where a worker serves one connection at a time, one would not do; nor is it a setting.
        let settings = match self.architecture {
            "mp" => settings.replace("workers = 1\n", ""),
            _ => settings.to_owned(),
        };
        format!("arch = \"{}\"\n{events}{settings}\n", self.architecture)
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

/// Mounts every body once per architecture, and on `sped` once per event mechanism as well, since
/// all loops wait by the same trait. Those whose completions, user-level threads or stages might
/// miss an edge are mounted with that too, and some with other settings. Bodies are named by theme,
/// which is a module, and function.
macro_rules! for_each_architecture {
    ($($bodies:tt)*) => {
        mount!(sped, "sped", "epoll", $($bodies)*);
        mount!(symped, "symped", "epoll", $($bodies)*);
        mount!(shared_symped, "shared-symped", "epoll", $($bodies)*);
        mount!(n_copy, "n-copy", "epoll", $($bodies)*);
        mount!(amped, "amped", "epoll", $($bodies)*);
        mount!(amped_processes, "amped", "amped.helper-kind = \"process\"", $($bodies)*);
        mount!(
            amped_processes_select,
            "amped",
            "events = \"select\"\namped.helper-kind = \"process\"",
            $($bodies)*
        );
        mount!(mp, "mp", "epoll", $($bodies)*);
        mount!(mt, "mt", "epoll", $($bodies)*);
        mount!(thread_per_connection, "thread-per-connection", "epoll", $($bodies)*);
        mount!(tux, "tux", "epoll", $($bodies)*);
        mount!(knot_c, "knot-c", "epoll", $($bodies)*);
        mount!(knot_a, "knot-a", "epoll", $($bodies)*);
        mount!(watpipe, "watpipe", "epoll", $($bodies)*);
        mount!(uring, "uring", "epoll", $($bodies)*);
        mount!(uring_basic, "uring", "uring.features = \"basic\"", $($bodies)*);
        mount!(sped_select, "sped", "select", $($bodies)*);
        mount!(sped_poll, "sped", "poll", $($bodies)*);
        mount!(sped_epoll_edge, "sped", "epoll-edge", $($bodies)*);
        mount!(knot_c_select, "knot-c", "select", $($bodies)*);
        mount!(watpipe_poll, "watpipe", "poll", $($bodies)*);
        mount!(amped_epoll_edge, "amped", "epoll-edge", $($bodies)*);
        mount!(knot_a_epoll_edge, "knot-a", "epoll-edge", $($bodies)*);
        mount!(watpipe_epoll_edge, "watpipe", "epoll-edge", $($bodies)*);
    };
}

/// Mounts every body on one architecture.
macro_rules! mount {
    ($mount:ident, $architecture:literal, $events:literal,
     $($theme:ident: [$($body:ident),* $(,)?],)*) => {
        mod $mount {
            static MOUNT: crate::mount::Mount =
                crate::mount::Mount::new($architecture, $events);

            $(mod $theme {
                $(
                    #[test]
                    fn $body() {
                        super::MOUNT.run(crate::$theme::$body);
                    }
                )*
            })*
        }
    };
}
