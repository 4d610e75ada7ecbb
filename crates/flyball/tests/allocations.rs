//! The hot path allocates nothing: a real worker is counted from outside.
//!
//! This program is two: started by `cargo test` it measures, and started by itself it is the
//! server, with an allocator that counts into a file. The product's own binary stays as it is. The
//! usual harness would run the server in a thread, and a server forks; so there is no harness.
#![forbid(unsafe_code)]

#[path = "program/common/mod.rs"]
mod common;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use common::responder::{self, CONTENT, Responder};
use common::{Launch, Server, Site, get, last_get};
use flyball::cli::{self, Command};
use flyball::settings::resolve;
use flyball_sys::alloc;
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Where the server counts; also what tells this program to be the server.
const COUNT_FILE: &str = "FLYBALL_TEST_ALLOCATIONS";

/// Rounds before counting, so that buffers and slots are there.
const WARM_ROUNDS: u32 = 100;

/// Rounds that are counted.
const ROUNDS: u32 = 1_000;

/// How often rounds are counted in which more was allocated than is allowed.
const ATTEMPTS_MAX: usize = 3;

/// Allocations allowed per second that begins, whatever is served: the text of `Date`.
const PER_SECOND: u64 = 1;

const ARCHITECTURES: [&str; 10] =
    ["sped", "symped", "n-copy", "amped", "mp", "mt", "knot-c", "knot-a", "watpipe", "uring"];

/// Those of which a kept connection allocates nothing: one starts a thread for each connection, and
/// `tux` shares each new socket with its ring, by a count of who holds it.
const KEPT_ALIVE: [&str; 12] = [
    "uring",
    "sped",
    "symped",
    "n-copy",
    "amped",
    "mp",
    "mt",
    "thread-per-connection",
    "knot-c",
    "knot-a",
    "watpipe",
    "tux",
];

/// The names of these functions and the functions.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        const TESTS: &[(&str, fn())] = &[$((stringify!($name), $name)),*];
    };
}

tests! {
    a_cached_keep_alive_request_allocates_nothing,
    a_cached_body_that_is_coded_allocates_nothing,
    a_request_that_is_logged_allocates_nothing,
    a_new_connection_allocates_nothing,
    a_pipelined_batch_allocates_nothing,
    a_cached_file_of_a_site_with_hundreds_of_rules_allocates_nothing,
    a_module_that_answers_at_once_allocates_nothing,
    a_request_that_a_responder_answers_allocates_little,
    a_file_that_processes_share_is_lent_by_two_allocations,
    a_request_over_tls_is_opened_and_sealed_by_two_allocations,
    an_uncached_request_is_seen_by_the_counter,
    a_head_and_a_date_that_are_made_anew_allocate,
}

fn main() -> ExitCode {
    if let Some(path) = std::env::var_os(COUNT_FILE) {
        return match serve(Path::new(&path)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("{message}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // All of these are in the fast tier.
    if arguments.iter().any(|word| word == "--ignored") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, test) in TESTS {
        if arguments.iter().any(|word| word == "--list") {
            println!("{name}: test");
        } else if wanted.is_empty() || wanted.iter().any(|word| name.contains(*word)) {
            println!("test {name} ...");
            test();
        }
    }
    ExitCode::SUCCESS
}

/// What `flyball serve` does, counted.
fn serve(count: &Path) -> Result<(), String> {
    let file = File::options().read(true).write(true).open(count).map_err(|e| e.to_string())?;
    alloc::count_into(&file).map_err(|error| error.to_string())?;
    let Ok(Command::Serve(typed)) = cli::parse(std::env::args_os()) else {
        return Err("the arguments are not those of serve".into());
    };
    let names: Vec<&str> = flyball_arch::ALL.iter().map(|arch| arch.name()).collect();
    let settings = resolve(&typed, &names).map_err(|errors| format!("{errors:?}"))?;
    let architecture = flyball_arch::find(&settings.arch).ok_or("an unknown architecture")?;
    let server = flyball_server::Server::bind(architecture, settings)?;
    for listen in server.listens() {
        let scheme = if listen.tls { "https" } else { "http" };
        println!("  at {scheme}://{}/", listen.address);
    }
    println!("  by {} with 1 worker", architecture.name());
    server.run().map(drop).map_err(|error| error.to_string())
}

/// A server that counts its allocations.
struct Counted {
    server: Server,
    file: PathBuf,
    _directory: TempDir,
}

impl Counted {
    fn start(site: &Site, arch: &str) -> Counted {
        Counted::start_with(site, arch, &[])
    }

    fn start_with(site: &Site, arch: &str, settings: &[&str]) -> Counted {
        Counted::start_from(&[site.path().to_str().expect("a path in UTF-8")], arch, settings)
    }

    /// Serves what these arguments say.
    fn start_from(what: &[&str], arch: &str, settings: &[&str]) -> Counted {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = common::within(&directory, "allocations");
        File::create(&file).expect("the file can be made");
        let this = std::env::current_exe().expect("this program has a path");
        let launch = Launch::program(&[this.into()])
            .args(what)
            .args(&["--listen", "127.0.0.1:0", "--arch", arch])
            .workers_for(arch, 1)
            .set("cache.revalidate=1h")
            // A thread allocates at the first request that it serves: few of them have served soon.
            .args(&["--set", "amped.helpers=1", "--set", "mt.threads=2"])
            .args(&["--set", "watpipe.writers=2"])
            .env(COUNT_FILE, &file);
        // Written when all have begun, which the master sees a moment after the first answer.
        let ready = common::within(&directory, "pid");
        let launch = launch.set(&format!("pid-file={}", common::text(&ready)));
        let launch = settings.iter().fold(launch, |launch, setting| launch.set(setting));
        let server = launch.start();
        common::wait_for("the master to say that it serves", || ready.exists().then_some(()));
        Counted { server, file, _directory: directory }
    }

    fn allocations(&self) -> u64 {
        let bytes = std::fs::read(&self.file).expect("the count can be read");
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    /// Threads of all its workers.
    fn threads(&self) -> u64 {
        let workers = common::children(self.server.master());
        let threads = workers.iter().filter_map(|pid| common::proc_status(*pid, "Threads"));
        threads.map(|count| count.parse::<u64>().expect("a number")).sum()
    }

    /// Allocations in all rounds, and the seconds that began meanwhile.
    fn count(&self, mut round: impl FnMut()) -> (u64, u64) {
        for _ in 0..WARM_ROUNDS {
            round();
        }
        let (before, start) = (self.allocations(), Instant::now());
        for _ in 0..ROUNDS {
            round();
        }
        (self.allocations() - before, start.elapsed().as_secs() + 1)
    }

    /// Fails when a round allocates more often than `each` times.
    ///
    /// A busy machine can make the server allocate once more: another thread than before serves; a
    /// client is accepted before the end of the one before it was handled, and then both have
    /// buffers; a thread that nothing reaches for half a second gives its buffers back. So the
    /// rounds are counted again. What a round costs is there each time.
    #[track_caller]
    fn allows(&self, what: &str, each: u64, mut round: impl FnMut()) {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (allocations, seconds) = self.count(&mut round);
            // Every thread may have seen each second begin.
            let allowed = each * u64::from(ROUNDS) + PER_SECOND * self.threads() * seconds;
            println!("  {what}: {allocations} allocations in {ROUNDS} rounds, {allowed} allowed");
            if allocations <= allowed {
                return;
            }
            assert!(attempts < ATTEMPTS_MAX, "{what}: {allocations} allocations, not {allowed}");
        }
    }
}

fn small_site() -> Site {
    Site::with(&[("small.txt", &[b'x'; 1024])])
}

/// Fails when the rounds allocate on any architecture.
#[track_caller]
fn allocates_nothing<T>(
    architectures: &[&str],
    connect: impl Fn(&Counted) -> T,
    round: impl Fn(&Counted, &mut T),
) {
    let site = small_site();
    for arch in architectures {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            println!("  {arch} cannot run here");
            continue;
        }
        let counted = Counted::start(&site, arch);
        let mut state = connect(&counted);
        counted.allows(arch, 0, || round(&counted, &mut state));
    }
}

fn a_cached_keep_alive_request_allocates_nothing() {
    allocates_nothing(
        &KEPT_ALIVE,
        |counted| counted.server.connect(),
        |_, client| assert_eq!(client.ask(get("/small.txt")).body.len(), 1024),
    );
}

fn a_cached_body_that_is_coded_allocates_nothing() {
    const CODED: &str = "GET /small.txt HTTP/1.1\r\nHost: a\r\n\
                         Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n";
    allocates_nothing(
        &KEPT_ALIVE,
        |counted| counted.server.connect(),
        |_, client| assert!(client.ask(CODED).body.len() < 200),
    );
}

/// The lines go to a process of its own, which is counted too: what it writes is no reason for it
/// to allocate.
fn a_request_that_is_logged_allocates_nothing() {
    let site = small_site();
    for arch in ["sped", "mt", "watpipe", "uring"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            println!("  {arch} cannot run here");
            continue;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = common::within(&directory, "access.log");
        let log = format!("access-log={}", path.display());
        let mut counted = Counted::start_with(&site, arch, &[&log]);
        let mut client = counted.server.connect();
        let mut asked = 0;
        counted.allows(arch, 0, || {
            asked += 1;
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
        });
        common::signal(counted.server.master(), "TERM");
        assert!(counted.server.ended().success());
        let lines = std::fs::read_to_string(&path).expect("the log can be read");
        assert_eq!(lines.lines().count(), asked, "{arch}");
    }
}

fn a_new_connection_allocates_nothing() {
    allocates_nothing(
        &ARCHITECTURES,
        |_| (),
        |counted, ()| {
            let mut client = counted.server.connect();
            assert_eq!(client.ask(last_get("/small.txt")).body.len(), 1024);
            client.expect_closed();
        },
    );
}

fn a_pipelined_batch_allocates_nothing() {
    allocates_nothing(
        &KEPT_ALIVE,
        |counted| counted.server.connect(),
        |_, client| {
            client.send(get("/small.txt").repeat(16));
            for _ in 0..16 {
                assert_eq!(client.response().status(), 200);
            }
        },
    );
}

/// `shared-symped` alone allocates on the cached path: the loan of a descriptor and its holder.
fn a_cached_file_of_a_site_with_hundreds_of_rules_allocates_nothing() {
    let site = small_site();
    let root = site.path().display().to_string();
    let mut config: String = (0..20)
        .map(|n| format!("[[site]]\nhosts = [\"h{n}.test\"]\nroot = \"{root}\"\n"))
        .collect();
    config += &format!("[[site]]\nroot = \"{root}\"\nlanguages = [\"en\", \"de\"]\n");
    for n in 0..50 {
        config += &format!("[[site.redirect]]\nfrom = \"/old{n}/*\"\nto = \"/new{n}/$1\"\n");
    }
    for n in 0..200 {
        config += &format!("[[site.header]]\npath = \"/*\"\nset = {{ X-{n} = \"{n}\" }}\n");
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("flyball.toml");
    std::fs::write(&path, config).expect("the configuration can be written");
    let path = path.to_str().expect("a path in UTF-8");
    for arch in ["sped", "mt", "uring"] {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            println!("  {arch} cannot run here");
            continue;
        }
        let counted = Counted::start_from(&["--config", path], arch, &[]);
        let mut client = counted.server.connect();
        let request =
            "GET /small.txt HTTP/1.1\r\nHost: a.test\r\nAccept-Language: de, en;q=0.5\r\n\r\n";
        counted.allows(arch, 0, || assert_eq!(client.ask(request).expect("X-199"), "199"));
    }
}

fn a_module_that_answers_at_once_allocates_nothing() {
    let site = small_site();
    let config = format!(
        "[[site]]\nroot = \"{}\"\n[[site.module]]\npath = \"/hello\"\nname = \"hello\"\n",
        site.path().display()
    );
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("flyball.toml");
    std::fs::write(&path, config).expect("the configuration can be written");
    let path = path.to_str().expect("a path in UTF-8");
    for arch in ["sped", "shared-symped", "mt"] {
        let counted = Counted::start_from(&["--config", path], arch, &[]);
        let mut client = counted.server.connect();
        counted.allows(arch, 0, || assert_eq!(client.ask(get("/hello")).status(), 200));
    }
}

fn a_request_that_a_responder_answers_allocates_little() {
    /// With a link of its own, and with one that is kept.
    const EACH: [(usize, u64); 2] = [(0, 16), (4, 15)];
    let responder = Responder::start();
    for (kept, each) in EACH {
        let config = responder.config(kept);
        for arch in ["sped", "mt"] {
            let counted = Counted::start_from(&["--config", &config], arch, &[]);
            let mut client = counted.server.connect();
            let round = || assert_eq!(client.ask(get(responder::PATH)).body, CONTENT);
            counted.allows(arch, each, round);
        }
    }
}

fn a_file_that_processes_share_is_lent_by_two_allocations() {
    const EACH: u64 = 2;
    let site = small_site();
    let counted = Counted::start(&site, "shared-symped");
    let mut client = counted.server.connect();
    let (allocations, seconds) =
        counted.count(|| assert_eq!(client.ask(get("/small.txt")).body.len(), 1024));
    println!("  {allocations} allocations in {ROUNDS} rounds");
    let loans = EACH * u64::from(ROUNDS);
    assert!((loans..=loans + PER_SECOND * seconds).contains(&allocations), "{allocations}");
}

/// rustls allocates the plain text of the request, and the cipher text of the answer.
fn a_request_over_tls_is_opened_and_sealed_by_two_allocations() {
    const EACH: u64 = 2;
    let site = small_site();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = common::secure_config(&directory, &site);
    let what = ["--config", &config, "--listen", "https://127.0.0.1:0"];
    for arch in KEPT_ALIVE {
        if flyball_arch::find(arch).is_none_or(|arch| arch.probe().is_err()) {
            println!("  {arch} cannot run here");
            continue;
        }
        let counted = Counted::start_from(&what, arch, &[]);
        let mut client = counted.server.connect_secure();
        counted.allows(arch, EACH, || {
            assert_eq!(client.ask(get("/small.txt")).body.len(), 1024);
        });
    }
}

/// The other tests would pass with a counter that counts nothing.
fn an_uncached_request_is_seen_by_the_counter() {
    let site = small_site();
    let counted = Counted::start(&site, "sped");
    let mut client = counted.server.connect();
    let mut number = 0;
    let (allocations, _) = counted.count(|| {
        number += 1;
        assert_eq!(client.ask(get(&format!("/absent-{number}"))).status(), 404);
    });
    assert!(allocations >= u64::from(ROUNDS), "{allocations} allocations in {ROUNDS} lookups");
}

/// What two switches take away: nothing else shows it from outside.
fn a_head_and_a_date_that_are_made_anew_allocate() {
    let site = small_site();
    for switch in ["cache.heads=false", "experiment.date-cache=false"] {
        let counted = Counted::start_with(&site, "sped", &[switch]);
        let mut client = counted.server.connect();
        let (allocations, _) =
            counted.count(|| assert_eq!(client.ask(get("/small.txt")).body.len(), 1024));
        println!("  {switch}: {allocations} allocations in {ROUNDS} rounds");
        assert!(allocations >= u64::from(ROUNDS), "{switch}: {allocations}");
    }
}
