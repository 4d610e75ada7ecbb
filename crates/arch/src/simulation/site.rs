//! The site that is served: files of all sizes in a temporary directory, and two modules.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};

use flyball_governor::Mode;
use flyball_observe::log::LogSender;
use flyball_site::modules::ModuleSettings;
use flyball_site::{ResponderSettings, SiteSettings, Sites};
use flyball_sys::net::Endpoint;
use flyball_sys::sandbox::Rights;
use flyball_tls::Config;
use tempfile::TempDir;

use super::random::Random;
use crate::chunks::Chunks;
use crate::kernel::signal::Signals;
use crate::links::Upstreams;
use crate::listener::Listener;
use crate::rings::Rings;
use crate::settings::{AcceptLimit, Events, GovernorSettings, SendMode, Settings};
use crate::shared_state::SharedState;
use crate::worker::{Leaving, Worker};

/// A body that a cache does not hold, and one that leaves in many pieces.
pub(super) const MEDIUM_BYTES: usize = 5_000;
pub(super) const LARGE_BYTES: usize = 60_000;

/// Largest body that a cache holds.
const SMALL_BYTES_MAX: u64 = 2_000;

/// Paths of servers behind this one. They are equally long.
pub(super) const FASTCGI: &str = "/app";
pub(super) const SCGI: &str = "/cgi";

/// How much longer than usual clients may take where all answers must come.
const PATIENCE: u64 = 1_000;

/// What all runs serve.
struct Content {
    _directory: TempDir,
    sites: Arc<Sites>,
    unix_ms: u64,
}

fn content() -> &'static Content {
    static CONTENT: OnceLock<Content> = OnceLock::new();
    CONTENT.get_or_init(|| {
        let directory = tempfile::tempdir().expect("there is room");
        let numbered = |bytes: usize| -> Vec<u8> {
            (0..).flat_map(|n: u64| format!("{n} ").into_bytes()).take(bytes).collect()
        };
        let write = |name: &str, content: &[u8]| {
            fs::write(directory.path().join(name), content).expect("there is room");
        };
        fs::create_dir(directory.path().join("dir")).expect("there is room");
        write("index.html", b"<p>index");
        write("small.txt", &numbered(300));
        write("empty.txt", b"");
        write("medium.txt", &numbered(MEDIUM_BYTES));
        write("large.txt", &numbered(LARGE_BYTES));
        write("dir/one.txt", b"one");
        let hello = ModuleSettings {
            path: "/hello".to_owned(),
            name: Some("hello".to_owned()),
            ..ModuleSettings::default()
        };
        // Links to it are simulated, wherever it listens.
        let server = ResponderSettings {
            path: FASTCGI.to_owned(),
            server: Some(Endpoint::Unix(directory.path().join("socket"))),
            script: Some(FASTCGI.into()),
            idle_links: 100,
            ..ResponderSettings::default()
        };
        let closing = ResponderSettings {
            path: SCGI.to_owned(),
            script: Some(SCGI.into()),
            ..server.clone()
        };
        let site = SiteSettings {
            root: Some(directory.path().to_owned()),
            listing: true,
            modules: vec![hello, ModuleSettings::digest("/digest")],
            fastcgi: vec![server],
            scgi: vec![closing],
            ..SiteSettings::default()
        };
        let sites = Sites::open(&[site], &Rights::OWN).expect("the site can be opened");
        // Files have not changed for a while: they may leave by reference.
        let unix_ms = flyball_sys::clock::unix_ms() + 3_600_000;
        Content { _directory: directory, sites: Arc::new(sites), unix_ms }
    })
}

/// The time of day in every run.
pub(super) fn unix_ms() -> u64 {
    content().unix_ms
}

/// Settings of a run. Where it is fair, no client is too slow.
pub(super) fn settings(random: &mut Random, events: Events, fair: bool) -> Settings {
    let mut settings = Settings { events, ..Settings::default() };
    settings.piece_bytes = random.pick(&[4_096, 16_384, 262_144]);
    settings.send = random.pick(&[SendMode::Auto, SendMode::Copy, SendMode::Sendfile]);
    settings.eager_read = !random.one_in(4);
    settings.try_habit(|loops| loops.eager_write = !random.one_in(6));
    settings.try_habit(|loops| loops.full_read = random.one_in(6));
    settings.caches.small_bytes_max = SMALL_BYTES_MAX;
    settings.caches.files_max = random.pick(&[0, 2, 100]);
    settings.limits.pipeline_max = random.pick(&[1, 2, 32]);
    // Idle connections make room for clients that wait only where that is no surprise.
    settings.close_idle_when_full = !fair;
    settings.limits.answer_ms = random.pick(&[3_000, 60_000]);
    if fair {
        let limits = &mut settings.limits;
        for ms in [
            &mut limits.handshake_ms,
            &mut limits.head_ms,
            &mut limits.idle_ms,
            &mut limits.answer_ms,
            &mut limits.send_ms,
            &mut limits.linger_ms,
            &mut limits.linger_ms_max,
            &mut limits.rate_window_ms,
        ] {
            *ms *= PATIENCE;
        }
    }
    if random.one_in(3) {
        // Phases end after every few connections.
        settings.governor = GovernorSettings {
            mode: Mode::On,
            accept_ms: Some(0),
            work_ms: Some(0),
            ..GovernorSettings::default()
        };
        settings.accept_limit = random.pick(&[AcceptLimit::Auto, AcceptLimit::Infinite]);
    }
    settings
}

/// A worker without threads, and its listening socket.
pub(crate) fn worker(
    settings: Settings,
    blocks: usize,
    tls: Option<Config>,
) -> (Worker, Arc<OwnedFd>) {
    let (listener, _) = UnixStream::pair().expect("descriptors are left");
    let listener = Arc::new(OwnedFd::from(listener));
    let sites = Arc::clone(&content().sites);
    let worker = Worker {
        index: 0,
        listeners: vec![Listener::new(Arc::clone(&listener), tls)],
        shares_listeners: false,
        chunks: Chunks::of(&settings),
        settings: Arc::new(settings),
        upstreams: Upstreams::of(&sites, None),
        sites,
        shared: Arc::new(SharedState::new(blocks).expect("memory is left")),
        blocks: 0..blocks,
        signals: Signals::block().expect("descriptors are left"),
        connections_max: 100,
        log: LogSender::off(),
        rings: Rings::default(),
        leaving: Leaving::default(),
        renewals: None,
    };
    if worker.settings.accept_limit == AcceptLimit::Auto {
        worker.shared.live().set_accept_limit(AcceptLimit::Auto);
    }
    (worker, listener)
}
