//! Every setting is honoured by all architectures or named by those that do, and one that has no
//! meaning for the architecture that serves is told at start.
use std::collections::BTreeSet;

use crate::common::{Launch, Server, Site};
use flyball::settings::{SETTINGS, UsedBy};
use flyball_arch::{ALL, Architecture};
use flyball_testkit::skip;

/// The keys that some architecture honours.
fn honoured_by_some() -> BTreeSet<&'static str> {
    ALL.iter()
        .flat_map(|architecture| architecture.settings())
        .copied()
        .flatten()
        .copied()
        .collect()
}

/// Serves with the defaults of these keys written out.
fn serve(architecture: &dyn Architecture, site: &Site, keys: &[&'static str]) -> Server {
    let mut launch = Launch::new(site, architecture.name());
    for key in keys {
        let setting = SETTINGS.iter().find(|setting| setting.key == *key).expect("it is there");
        launch = launch.set(&format!("{key}={}", setting.default.expect("it has a default")));
    }
    launch.start()
}

#[test]
fn every_setting_is_global_or_named_by_an_architecture_that_honours_it() {
    let some = honoured_by_some();
    for setting in SETTINGS {
        assert!(
            (setting.used_by == UsedBy::Some) == some.contains(setting.key),
            "{}: its row says that some architectures use it if some name it",
            setting.key
        );
    }
    for architecture in ALL {
        let mut seen = BTreeSet::new();
        for key in architecture.settings().iter().copied().flatten() {
            let name = architecture.name();
            assert!(SETTINGS.iter().any(|setting| setting.key == *key), "{name}: {key}");
            assert!(seen.insert(key), "{name} names {key} twice");
        }
    }
}

#[test]
fn what_the_architecture_does_not_honour_is_told_and_nothing_else() {
    let site = Site::with(&[]);
    for architecture in ALL {
        let name = architecture.name();
        if let Err(why) = architecture.probe() {
            skip(&format!("{name} cannot run here: {why}"));
            continue;
        }
        let is_own = |key: &&'static str| architecture.honours(key);
        let (own, others): (Vec<_>, Vec<_>) = honoured_by_some().into_iter().partition(is_own);
        let server = serve(*architecture, &site, &others);
        for key in &others {
            let warning = format!("`{key}` has no meaning for {name} and is ignored");
            server.errors.wait_for("the warning", |text| text.contains(&warning));
        }
        drop(server);
        let server = serve(*architecture, &site, &own);
        let said = server.errors.so_far();
        assert!(!said.contains("has no meaning"), "{name}: {said}");
    }
}
