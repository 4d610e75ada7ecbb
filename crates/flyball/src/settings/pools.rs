//! The keys of `[[site.fastcgi]]` that say which program this server starts for it.

use flyball_site::{PoolSettings, SiteSettings};

use super::kind::Kind;
use super::limits;
use super::table::{Setting, Word};

pub(super) const PROGRAM: Setting<SiteSettings> = Setting {
    key: "program",
    kind: Kind::Path { set: |s, path| pool(s).program = Some(path) },
    word: Some(Word { name: "none", set: |s| pool(s).program = None }),
    default: Some("none"),
    doc: "Program that this server starts to answer, such as /usr/bin/php-cgi",
    more: "It gets a listening socket as descriptor 0, as FastCGI has it, and answers one request \
           after the other. `socket` may then be left out; one that is given is made. It runs as \
           the user of the workers, and ends with the server.",
    source: "FastCGI 1.0 section 2.2; Pai, Druschel, Zwaenepoel 1999, section 5.6",
    ..Setting::ROW
};

pub(super) const ARGUMENTS: Setting<SiteSettings> = Setting {
    key: "arguments",
    kind: Kind::Texts {
        form: "an argument without a zero byte",
        empty: true,
        valid: |text| !text.contains('\0'),
        set: |s, all| pool(s).arguments = all,
    },
    word: Some(Word { name: "none", set: |s| pool(s).arguments.clear() }),
    default: Some("none"),
    doc: "Arguments of `program`",
    ..Setting::ROW
};

pub(super) const ENVIRONMENT: Setting<SiteSettings> = Setting {
    key: "environment",
    kind: Kind::Fields { set: |s, all| pool(s).environment.extend(all) },
    word: Some(Word { name: "none", set: |s| pool(s).environment.clear() }),
    default: Some("none"),
    doc: "Environment of `program`, beside PATH, such as `PHP_FCGI_MAX_REQUESTS`",
    more: "What a request says comes by `params`, not by the environment.",
    ..Setting::ROW
};

pub(super) const PROCESSES: Setting<SiteSettings> = Setting {
    key: "processes",
    kind: Kind::Integer { least: 1, most: 1_000, set: |s, n| pool(s).processes_max = n as usize },
    default: Some("4"),
    doc: "Most processes of `program`, in all",
    more: "Another is started when a request waits and no process accepts. With `idle-links` each \
           link that is kept may occupy one: workers times `idle-links` should be less than this.",
    ..Setting::ROW
};

pub(super) const PROCESSES_MIN: Setting<SiteSettings> = Setting {
    key: "processes-min",
    kind: Kind::Integer { least: 0, most: 1_000, set: |s, n| pool(s).processes_min = n as usize },
    default: Some("1"),
    doc: "Processes of `program`, in all, that start with the server and stay",
    more: "With 0 the first is started by the first request.",
    ..Setting::ROW
};

pub(super) const PROCESS_IDLE: Setting<SiteSettings> = Setting {
    key: "process-idle",
    kind: Kind::Duration { least_ms: 100, most_ms: 86_400_000, set: |s, ms| pool(s).idle_ms = ms },
    default: Some("1min"),
    doc: "How long an idle process above `processes-min` lives before it is stopped",
    more: "It is ended after this time without work, or up to twice of it, by SIGTERM. One that \
           waits as long for another program within a request counts as idle.",
    ..Setting::ROW
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
