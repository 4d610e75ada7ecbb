//! The keys of `[[site.fastcgi]]` that say which program this server starts for it.

use flyball_site::{PoolSettings, SiteSettings};

use super::kind::Kind;
use super::limits;
use super::table::{Setting, Word};

pub(super) const PROGRAM: Setting<SiteSettings> = Setting {
    key: "program",
    flag: None,
    kind: Kind::Path { set: |s, path| pool(s).program = Some(path) },
    word: Some(Word { name: "none", set: |s| pool(s).program = None }),
    default: Some("none"),
    doc: "A program that this server starts to answer, such as /usr/bin/php-cgi",
    more: "It gets a listening socket as descriptor 0, as FastCGI has it, and answers one request \
           after the other. `socket` may then be left out; one that is given is made. It runs as \
           the user of the workers, and ends with the server.",
    source: "FastCGI 1.0 section 2.2; Pai, Druschel, Zwaenepoel 1999, section 5.6",
};

pub(super) const ARGUMENTS: Setting<SiteSettings> = Setting {
    key: "arguments",
    flag: None,
    kind: Kind::Texts {
        form: "an argument without a zero byte",
        empty: true,
        valid: |text| !text.contains('\0'),
        set: |s, all| pool(s).arguments = all,
    },
    word: Some(Word { name: "none", set: |s| pool(s).arguments.clear() }),
    default: Some("none"),
    doc: "What `program` is given after its own name",
    more: "",
    source: "",
};

pub(super) const ENVIRONMENT: Setting<SiteSettings> = Setting {
    key: "environment",
    flag: None,
    kind: Kind::Fields { set: |s, all| pool(s).environment.extend(all) },
    word: Some(Word { name: "none", set: |s| pool(s).environment.clear() }),
    default: Some("none"),
    doc: "Environment of `program`, beside PATH, such as `PHP_FCGI_MAX_REQUESTS`",
    more: "What a request says comes by `params`, not by the environment.",
    source: "",
};

pub(super) const PROCESSES: Setting<SiteSettings> = Setting {
    key: "processes",
    flag: None,
    kind: Kind::Integer { least: 1, most: 1_000, set: |s, n| pool(s).processes_max = n as usize },
    word: None,
    default: Some("4"),
    doc: "Most processes of `program`, in all",
    more: "Another is started when somebody waits and nobody accepts. With `idle-links` each link \
           that is kept may occupy one: workers times `idle-links` should be less than this.",
    source: "",
};

pub(super) const PROCESSES_MIN: Setting<SiteSettings> = Setting {
    key: "processes-min",
    flag: None,
    kind: Kind::Integer { least: 0, most: 1_000, set: |s, n| pool(s).processes_min = n as usize },
    word: None,
    default: Some("1"),
    doc: "Fewest processes of `program`, in all, started with the server",
    more: "With 0 the first is started by the first request.",
    source: "",
};

pub(super) const PROCESS_IDLE: Setting<SiteSettings> = Setting {
    key: "process-idle",
    flag: None,
    kind: Kind::Duration { least_ms: 100, most_ms: 86_400_000, set: |s, ms| pool(s).idle_ms = ms },
    word: None,
    default: Some("1min"),
    doc: "Time after which a process beyond the fewest is ended that does nothing",
    more: "It is ended after this time without work, or up to twice of it, by SIGTERM. One that \
           waits as long for somebody else within a request counts as doing nothing.",
    source: "",
};

pub(super) const MEMORY: Setting<SiteSettings> = limits::memory(
    |s, bytes| pool(s).memory_bytes = Some(bytes),
    |s| pool(s).memory_bytes = None,
    "Address space of each process of `program`",
);

pub(super) const CPU_TIME: Setting<SiteSettings> = limits::cpu_time(
    31_536_000_000,
    |s, ms| pool(s).cpu_s = Some(ms.div_ceil(1_000)),
    |s| pool(s).cpu_s = None,
    "Processor time of each process of `program` in all, in whole seconds",
);

fn pool(site: &mut SiteSettings) -> &mut PoolSettings {
    &mut site.fastcgi.last_mut().expect("a key comes after its table was begun").pool
}
