//! The tables of settings agree with the structs they fill, and with the example file.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use flyball::settings::{
    Kind, LISTENERS, Raw, SETTINGS, SITE_SETTINGS, SITE_TABLES, Setting, Typed, defaults, read,
    resolve_in, settings_markdown,
};
use flyball_arch::{
    AcceptLimit, AccessLog, AcmeSettings, AdminPlace, Advice, ClientAddress, ClientSettings,
    CloseAfter, CompletionOrder, Events, Experiment, GovernorMode, GovernorSettings, HelperKind,
    Listen, LogFormat, LogLevel, LogSettings, LoopHabits, ResidencyTest, RingSettings,
    RunningSettings, SandboxMode, SandboxSettings, SendMode, Settings, SpoolSettings,
    StageSettings, ThreadOrder, TicketKeys, TlsSettings, UserThreadSettings, Violation, WorkOrder,
};
use flyball_http::{HeadStyle, Limits};
use flyball_site::access::{AccessSettings, Admission, AuthSettings};
use flyball_site::routes::{CacheControl, FileSettings, RouteSettings};
use flyball_site::{
    CachePolicy, CacheSettings, CertificateSource, ClientFiles, CompressSettings, EtagRule,
    FILTERS, Hints, SiteSettings, Symlinks,
};
use flyball_sys::lock::Way;
use flyball_sys::net::Endpoint;
use flyball_sys::uring::Features;

/// Widest text of the long help that still fits a terminal of 80 columns with its indent.
const DOC_CHARS_MAX: usize = 74;

/// Applies a setting's default as if it had been written.
fn apply_default<T>(setting: &Setting<T>, target: &mut T) {
    let Some(default) = setting.default else { return };
    let raw = Raw::Text(default.to_owned());
    let applied = setting.apply(target, &raw, Path::new(""));
    assert_eq!(applied, Ok(()), "the default of {}", setting.key);
}

/// Settings of which every field that the table fills differs from its default. It names all
/// fields, so that a new one cannot be forgotten here.
fn all_different() -> Settings {
    Settings {
        arch: "other".into(),
        listen: vec![Listen {
            address: flyball_sys::net::Endpoint::Tcp(([127, 0, 0, 1], 1).into()),
            tls: true,
            // Of a table of their own.
            hosts: Vec::new(),
            mode: 0o660,
            group: None,
        }],
        workers: Some(3),
        cpus: None, // asked of the system, not written
        pin: true,
        pin_cpus: vec![3],
        events: Events::Select,
        accept_limit: AcceptLimit::Infinite,
        governor: different_governor(),
        eager_read: false,
        free_threshold: 3,
        incoming_cpu: true,
        by_address: true,
        close_reset: true,
        close_idle_when_full: false,
        max_connections: Some(3),
        backlog: 3,
        defer_accept: false,
        congestion: Some("other".into()),
        exclusive: false,
        send: SendMode::Sendfile,
        quiet_ms: 3,
        chunk_bytes: 3,
        mapped_bytes_max: 3,
        mapped_advice: Advice::Random,
        send_blocking: true,
        no_delay: false,
        send_buffer: Some(3),
        receive_buffer: Some(3),
        piece_bytes: 3,
        helpers: 3,
        helper_kind: HelperKind::Process,
        helper_reserve: 3,
        helper_idle_ms: 3,
        residency: ResidencyTest::Mincore,
        threads: 3,
        processes: 3,
        groups: Some(3),
        stack_bytes: 3,
        user_threads: UserThreadSettings { threads: 3, stack_bytes: 3, order: ThreadOrder::Lifo },
        stages: StageSettings { partitions: Some(3), readers: 3, writers: 3 },
        ring: different_ring(),
        drain_ms: 3,
        admin: vec![AdminPlace::At(Endpoint::Unix("other".into()))],
        access_log: AccessLog::Stdout,
        bandwidth: Some(3),
        log: different_log(),
        clients: different_clients(),
        running: different_running(),
        sandbox: different_sandbox(),
        experiment: Some(different_experiment()),
        tls: different_tls(),
        limits: different_limits(),
        sites: Vec::new(),
        caches: different_caches(),
        given: BTreeMap::new(),
    }
}

fn different_governor() -> GovernorSettings {
    GovernorSettings {
        mode: GovernorMode::On,
        target_ms: Some(3),
        queue_ms: 3,
        give_up_ms: Some(3),
        accept_ms: Some(3),
        work_ms: Some(3),
    }
}

fn different_ring() -> RingSettings {
    RingSettings { entries: 3, buffers: 3, registered: 5, features: Features::NONE }
}

fn different_running() -> RunningSettings {
    RunningSettings {
        files: vec![], // which are read
        notes: vec![],
        unserved: vec![],
        port_tries: 0, // follows from `listen`
        pid_file: Some("other".into()),
        admin_mode: 0o660,
        admin_group: Some("other".into()),
        admin_hosts: vec!["other".into()],
        upgrade_ms: 3,
        spool: SpoolSettings { directory: Some("/other".into()), bytes_max: Some(3 << 20) },
    }
}

fn different_tls() -> TlsSettings {
    TlsSettings {
        of_sites: flyball_site::TlsSettings {
            source: CertificateSource::Auto, // not written
            certificates: Vec::new(),        // not written
            only_1_3: true,
            clients: client_files(),
            clients_written: Default::default(), // not a value
            redirects_http: false,
            hsts_s: Some(3),
        },
        rejects_unknown: true,
        tickets: TicketKeys::Off,
        watch_ms: 3,
        acme: different_acme(),
        internal: PathBuf::new(), // follows from the environment
    }
}

fn different_acme() -> AcmeSettings {
    AcmeSettings {
        is_written: false, // follows from the others
        email: Some("a@b".into()),
        directories: vec!["zerossl".into()],
        roots: Some("/other".into()),
        profile: Some("other".into()),
        external: Some("other".into()),
        external_key: Some("/other".into()),
        storage: "/other".into(),
        challenges: vec!["dns-01".into()],
        dns_hook: vec!["other".into()],
    }
}

fn client_files() -> ClientFiles {
    ClientFiles { ca: Some("other".into()), crl: Some("other".into()), is_optional: true }
}

fn different_sandbox() -> SandboxSettings {
    SandboxSettings {
        mode: SandboxMode::Off,
        forbidden_call: Some(Violation::Kill),
        user: Some("other".into()),
        group: Some("other".into()),
        read: vec!["/other".into()],
        by_file: false, // not written
    }
}

fn different_experiment() -> Box<Experiment> {
    let mut experiment = Box::<Experiment>::default();
    experiment.reject_percent = 3;
    experiment.close_after = CloseAfter::Parse;
    experiment.head = HeadStyle { align: 3, date_cached: false, joins_bodies: false };
    experiment.global_lock = true;
    experiment.directory_config = true;
    experiment.accept_lock = Some(Way::Flock);
    experiment.signal_mask = true;
    experiment.loops = LoopHabits {
        accept_extra: 3,
        accept_on_close: true,
        accept_every_loop: true,
        modify_listeners: true,
        work_order: WorkOrder::Lru,
        eager_write: false,
        full_read: true,
        cork: true,
        completion_order: CompletionOrder::Wra,
    };
    experiment
}

fn different_log() -> LogSettings {
    let format = LogFormat::parse("json").unwrap();
    LogSettings {
        level: LogLevel::Debug,
        format,
        bytes_max: Some(3),
        ms_max: Some(3),
        keep: 3,
        slow: AccessLog::Stdout,
        slow_ms: 3,
    }
}

fn different_clients() -> ClientSettings {
    ClientSettings {
        address: ClientAddress::ProxyProtocol,
        trusted: vec!["10.0.0.0/8".parse().unwrap()],
        connections_per_address: Some(3),
        requests_per_address: Some(3),
        requests_burst: Some(3),
    }
}

fn different_caches() -> CacheSettings {
    CacheSettings {
        paths_max: 3,
        heads: false,
        content_bytes_max: 3,
        files_max: 3,
        small_bytes_max: 3,
        least_bytes: 3,
        most_bytes: Some(3),
        locks: true,
        warm: vec!["/other".into()],
        revalidate_ms: 3,
        policy: CachePolicy::Lfu,
        hints: Hints {
            pin: vec!["other".into()],
            keep: vec!["other".into()],
            never: vec!["other".into()],
        },
        pinned: false,
        // These follow from experiments, and from how bodies are sent.
        global_lock: false,
        directory_config: false,
        promise: CacheSettings::default().promise,
    }
}

fn different_limits() -> Limits {
    Limits {
        target_bytes_max: 3,
        head_bytes_max: 3,
        fields_max: 3,
        body_bytes_max: 3,
        drain_bytes_max: 3,
        linger_bytes_max: 3,
        pipeline_max: 3,
        handshake_ms: 3,
        head_ms: 3,
        idle_ms: 3,
        answer_ms: 3,
        linger_ms: 3,
        linger_ms_max: 3,
        send_ms: 3,
        rate_window_ms: 3,
        body_rate_min: 3,
        send_rate_min: 3,
        // Follows from other settings.
        keeps_slow: Limits::default().keeps_slow,
        server_field: false,
        // Follows from experiments.
        head_style: HeadStyle::default(),
    }
}

/// Access of which every field differs from its default, but for the tables.
fn different_access() -> AccessSettings {
    AccessSettings {
        admission: Admission {
            allow: vec!["::1".parse().unwrap()],
            deny: vec!["::1".parse().unwrap()],
        },
        rules: Vec::new(),
        auth: AuthSettings {
            file: Some("other".into()),
            realm: "other".into(),
            paths: vec!["/other".into()],
            remember_ms: 3,
            failures_per_minute: 3,
        },
    }
}

/// Routes of which every field differs from its default, but for the tables.
fn different_routes() -> RouteSettings {
    RouteSettings {
        redirects: Vec::new(),
        returns: Vec::new(),
        rewrites: Vec::new(),
        headers: Vec::new(),
        types: Vec::new(),
        aliases: Vec::new(),
        error_pages: vec![(404, "other".into())],
        fallback: Some("/other".into()),
        pretty_urls: true,
        languages: vec!["de".into()],
        image_neighbours: true,
        user_directories: Some("other".into()),
        user_table: "other".into(),
        user_id_min: 3,
        files: FileSettings {
            cache_control: CacheControl::Off,
            etag: EtagRule::Off,
            ranges_max: 3,
        },
    }
}

#[test]
fn each_default_of_the_table_is_that_of_the_struct() {
    let default = format!("{:?}", defaults());
    for setting in SETTINGS {
        let mut settings = defaults();
        apply_default(setting, &mut settings);
        assert_eq!(format!("{settings:?}"), default, "{}", setting.key);
    }
    for setting in SITE_SETTINGS {
        let mut site = SiteSettings::default();
        apply_default(setting, &mut site);
        assert_eq!(site, SiteSettings::default(), "{}", setting.key);
    }
}

#[test]
fn each_setting_fills_one_field_and_all_are_filled() {
    let default = format!("{:?}", defaults());
    let mut settings = all_different();
    // What is included was read with the file that says so, and is in the values.
    for setting in SETTINGS.iter().filter(|setting| setting.key != "include") {
        let before = format!("{settings:?}");
        assert_ne!(before, default, "before {}", setting.key);
        apply_default(setting, &mut settings);
        assert_ne!(format!("{settings:?}"), before, "{} changes nothing", setting.key);
    }
    assert_eq!(format!("{settings:?}"), default);
}

#[test]
fn each_site_setting_fills_one_field_and_all_are_filled() {
    let mut site = SiteSettings {
        access_log: AccessLog::Stdout,
        hosts: vec!["other".into()],
        root: Some("other".into()),
        index: Vec::new(),
        listing: true,
        hidden: true,
        symlinks: Symlinks::Deny,
        types: vec![("a".into(), "b/c".into())],
        charset: "other".into(),
        digest_path: Some("/other".into()),
        routes: different_routes(),
        access: different_access(),
        compress: CompressSettings {
            on: false,
            precompressed: false,
            gzip_only: true,
            backends: false,
            codings: Vec::new(),
            types: vec!["a/b".into()],
            min_bytes: 3,
            max_bytes: 3,
            stream_bytes_max: 3,
            streams: 3,
            levels: [3; _],
            shed: 3,
            cpu_percent: 3,
            overloaded: true,
        },
        cgi: Vec::new(),
        fastcgi: Vec::new(),
        scgi: Vec::new(),
        modules: Vec::new(),
        limits: Vec::new(),
        spread: Default::default(),
        tls: flyball_site::TlsSettings {
            source: CertificateSource::Acme,
            clients: client_files(),
            ..Default::default()
        },
    };
    for setting in SITE_SETTINGS {
        let before = site.clone();
        apply_default(setting, &mut site);
        assert_ne!(site, before, "{} changes nothing", setting.key);
    }
    assert_eq!(site, SiteSettings::default());
    let root = SITE_SETTINGS.iter().find(|setting| setting.key == "root").unwrap();
    let raw = Raw::Text("elsewhere".into());
    assert_eq!(root.apply(&mut site, &raw, Path::new("/base")), Ok(()));
    assert_eq!(site.root, Some(PathBuf::from("/base/elsewhere")));
}

#[test]
fn each_key_of_a_table_fills_the_table_that_was_begun() {
    let text = |text: &str| Raw::Text(text.to_owned());
    let field = Raw::Map(vec![("X".into(), text("1"))]);
    let other = |table: &str, key: &str| match (table, key) {
        ("access", "allow" | "deny") => text("::1"),
        ("limit", "bandwidth") => text("3MiB"),
        ("limit", "path" | "match") => text("/other"),
        ("limit", _) => text("3"),
        ("module", "options") => field.clone(),
        ("module", "exact" | "blocking") => text("true"),
        ("module", "load") => text("first-use"),
        ("module", "on-panic") => text("abort"),
        (_, "environment" | "params") => field.clone(),
        (_, "processes" | "processes-min" | "idle-links" | "links" | "queue") => text("3"),
        (_, "output-max" | "memory" | "hold" | "buffer" | "buffer-max") => text("3MiB"),
        (_, key) if key.ends_with("-timeout") || matches!(key, "cpu-time" | "process-idle") => {
            text("3s")
        }
        (_, "require-script") => text("true"),
        (_, "extensions") => text("other"),
        (_, "socket") => text("unix:/other"),
        ("return", "status") => text("410"),
        ("rewrite", "if") => text("no-file"),
        (_, "status") => text("301"),
        (_, "type") => text("text/html"),
        (_, "set" | "add") => field.clone(),
        _ => text("/other"),
    };
    for table in SITE_TABLES {
        let mut site = SiteSettings::default();
        (table.begin)(&mut site);
        assert_ne!(site, SiteSettings::default(), "{}", table.key);
        for setting in table.settings {
            let begun = site.clone();
            apply_default(setting, &mut site);
            assert_eq!(site, begun, "the default of {}.{}", table.key, setting.key);
            let raw = match (table.key, setting.key) {
                ("header", "remove") => text("Other"),
                (table, key) => other(table, key),
            };
            assert_eq!(setting.apply(&mut site, &raw, Path::new("")), Ok(()), "{}", setting.key);
            assert_ne!(site, begun, "{}.{} changes nothing", table.key, setting.key);
        }
    }
}

#[test]
fn keys_and_flags_are_unique_and_docs_fit_a_line() {
    let mut seen = HashSet::new();
    for setting in SETTINGS {
        assert!(seen.insert(setting.key), "{}", setting.key);
        if let Some(flag) = &setting.flag {
            assert!(seen.insert(flag.name) || flag.name == setting.key, "--{}", flag.name);
        }
        assert!(setting.default.is_some(), "{} must have a default", setting.key);
        check_docs(setting);
    }
    let mut seen = HashSet::new();
    for setting in SITE_SETTINGS {
        assert!(seen.insert(setting.key), "{}", setting.key);
        check_docs(setting);
    }
    for table in SITE_TABLES {
        assert!(seen.insert(table.key), "{}", table.key);
        let mut keys = HashSet::new();
        assert!(table.settings.iter().all(|setting| keys.insert(setting.key)));
        table.settings.iter().for_each(check_docs);
    }
    LISTENERS.settings.iter().for_each(check_docs);
}

fn check_docs<T>(setting: &Setting<T>) {
    let key = setting.key;
    assert!((1..=DOC_CHARS_MAX).contains(&setting.doc.chars().count()), "{key}: {}", setting.doc);
    assert!(!setting.doc.ends_with('.'), "{key}: a full stop is added where one is needed");
    assert!(setting.more.is_empty() || setting.more.ends_with('.'), "{key}: {}", setting.more);
}

/// Beginnings of keys whose numbers are bounds.
const BOUNDS: &[&str] = &[
    "limit.",
    "timeout.",
    "rate.",
    "cache.",
    "connections.",
    "accept.backlog",
    "send.piece",
    "send.buffer",
    "receive.buffer",
    "amped.",
    "mt.",
    "mp.",
    "shared-symped.",
    "thread.",
    "knot.",
    "watpipe.",
    "uring.",
    "auth.",
    "compress.",
];

/// What each file, body or helper is measured by, in every setting that has it.
const OF_ONE: &[&str] = &[
    "cache.chunk",
    "cache.small",
    "cache.least",
    "cache.most",
    "cache.revalidate",
    "amped.idle",
    "compress.min-size",
    "compress.max-size",
    "compress.stream-max-size",
    "process-idle",
];

/// For what a bound may hold.
const SCOPES: &[&str] = &[
    "in all",
    "per worker",
    "per process",
    "per partition",
    "per listening socket",
    "per connection",
    "per request",
    "of each connection",
    "of each thread",
    "of each user-level thread",
    "as `send.buffer`",
];

#[track_caller]
fn says_for_what_it_holds<T>(setting: &Setting<T>) {
    let is_number =
        matches!(setting.kind, Kind::Integer { .. } | Kind::Size { .. } | Kind::Duration { .. });
    let is_level = FILTERS.iter().any(|filter| filter.level.key == setting.key);
    if !is_number || is_level || OF_ONE.contains(&setting.key) {
        return;
    }
    let text = format!("{} {}", setting.doc, setting.more).to_lowercase();
    assert!(SCOPES.iter().any(|scope| text.contains(scope)), "{}: {text}", setting.key);
}

#[test]
fn each_limit_says_for_what_it_holds() {
    let is_bound = |key: &str| BOUNDS.iter().any(|begins| key.starts_with(begins));
    let of_server = SETTINGS.iter().filter(|setting| is_bound(setting.key));
    of_server.for_each(says_for_what_it_holds);
    let of_site = SITE_SETTINGS.iter().filter(|setting| is_bound(setting.key));
    of_site.for_each(says_for_what_it_holds);
    SITE_TABLES.iter().flat_map(|table| table.settings).for_each(says_for_what_it_holds);
    LISTENERS.settings.iter().for_each(says_for_what_it_holds);
}

#[test]
fn the_flag_of_a_choice_shows_all_names() {
    for setting in SETTINGS {
        let (Some(flag), Kind::OneOf { names }) = (&setting.flag, &setting.kind) else { continue };
        let names: Vec<&str> = names.iter().map(|word| word.name).collect();
        assert_eq!(flag.value, names.join("|"), "--{}", flag.name);
    }
}

fn tells_what_to_type<T: Default>(setting: &Setting<T>) {
    let (form, key) = (setting.form(), setting.key);
    if let Some(word) = &setting.word {
        let told = form.split([' ', ',']).filter(|part| *part == word.name).count();
        assert_eq!(told, 1, "{key}: {form}");
    }
    let Kind::OneOf { names } = &setting.kind else { return };
    for word in *names {
        // Without quotes, a name of digits is a number, and others may be `true` or `false`.
        let raws = [Raw::Number(word.name.to_owned()), Raw::Switch(true)];
        for raw in raws {
            let wrong = setting.apply(&mut T::default(), &raw, Path::new("")).unwrap_err();
            let quoted = format!("{:?}", word.name);
            let expected = &wrong.expected;
            assert!(
                expected.contains(&quoted) && expected.contains("in quotes"),
                "{key}: {wrong:?}"
            );
        }
    }
}

#[test]
fn a_name_that_lacks_its_quotes_is_told_with_them_and_no_word_is_told_twice() {
    SETTINGS.iter().for_each(tells_what_to_type);
    SITE_SETTINGS.iter().for_each(tells_what_to_type);
    SITE_TABLES.iter().flat_map(|table| table.settings).for_each(tells_what_to_type);
    let minimum = SETTINGS.iter().find(|setting| setting.key == "tls.minimum").unwrap();
    let number = Raw::Number("1.3".to_owned());
    let wrong = minimum.apply(&mut Settings::default(), &number, Path::new("")).unwrap_err();
    assert_eq!(wrong.expected, "\"1.2\" or \"1.3\", in quotes");
}

fn example() -> Typed {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/example.toml");
    read(Path::new(path)).expect("docs/example.toml is TOML")
}

#[test]
fn the_example_file_is_right_and_holds_every_setting() {
    let typed = example();
    let listeners = typed.listeners.iter().flat_map(|typed| &typed.values);
    let listeners: Vec<&str> = listeners.map(|written| written.key.as_str()).collect();
    for setting in LISTENERS.settings {
        assert!(listeners.contains(&setting.key), "listener.{}", setting.key);
    }
    let written: Vec<&str> = typed.values.iter().map(|written| written.key.as_str()).collect();
    for setting in SETTINGS {
        let is_there = written.contains(&setting.key);
        assert_eq!(is_there, !setting.is_experiment(), "{}", setting.key);
    }
    for setting in SITE_SETTINGS {
        let site = &typed.sites[0];
        assert!(site.values.iter().any(|written| written.key == setting.key), "{}", setting.key);
    }
    for table in SITE_TABLES {
        let of_kind = typed.sites[0].tables.iter().filter(|typed| typed.key == table.key);
        let written: Vec<&str> =
            of_kind.flat_map(|typed| typed.values.iter().map(|w| w.key.as_str())).collect();
        for setting in table.settings {
            assert!(written.contains(&setting.key), "{}.{}", table.key, setting.key);
        }
    }
    let settings = resolve_in(&typed, &["n-copy"], &|_| None).expect("docs/example.toml is right");
    assert_eq!(settings.sites.len(), 2);
    assert!(settings.sites[0].root.as_ref().is_some_and(|root| root.ends_with("demo/site")));
}

#[test]
fn the_example_file_shows_the_defaults() {
    let mut settings = resolve_in(&example(), &["n-copy"], &|_| None).unwrap();
    // `auto`, written out to show how a variable is used.
    assert_eq!(settings.listen[0].to_string(), "127.0.0.1:8080");
    settings.listen.clear();
    settings.sites.clear();
    assert!(settings.given.contains_key("listen"));
    settings.given.clear();
    assert!(std::mem::take(&mut settings.sandbox.by_file));
    assert!(std::mem::take(&mut settings.running.files).iter().all(|file| file.is_absolute()));
    assert!(std::mem::take(&mut settings.tls.acme.is_written));
    // They follow from the environment.
    settings.tls.acme.storage.clear();
    settings.tls.internal.clear();
    assert!(matches!(settings.admin[..], [AdminPlace::Own(_)]));
    settings.admin = vec![AdminPlace::Own(None)];
    assert_eq!(format!("{settings:?}"), format!("{:?}", defaults()));
}

#[test]
fn the_document_tells_defaults_bounds_and_flags() {
    let text = settings_markdown();
    for expected in [
        "\n### `limit.head`\n",
        "- Value: a size from 256B to 1MiB.\n- Default: `16KiB`.\n",
        "- Flag: `--access-log PATH|-|off`.\n",
        "\n### `root`\n",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
}
