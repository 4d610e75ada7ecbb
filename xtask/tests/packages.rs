//! Packages are made, installed and served from in roots of their own. That builds the program for
//! release, twice, and needs the superuser, so it is done on request only:
//!
//! ```sh
//! FLYBALL_TEST_PACKAGES=release cargo test -p xtask --test packages -- --nocapture
//! ```
//!
//! The variable names the profile of the build; `dev` tries the recipes in less time.

/// The profile that was asked for.
fn asked() -> Option<String> {
    std::env::var("FLYBALL_TEST_PACKAGES").ok().filter(|profile| !profile.is_empty())
}

#[test]
fn the_debian_package_serves_from_a_clean_root_and_by_systemd_and_goes_without_a_trace() {
    if let Some(profile) = asked() {
        xtask::package::make(&["deb", "--test", "--profile", &profile]).unwrap();
    }
}

#[test]
fn the_static_program_serves_from_an_empty_root_and_as_the_containerfile_says() {
    if let Some(profile) = asked() {
        xtask::package::make(&["tar", "--test", "--profile", &profile]).unwrap();
    }
}

#[test]
fn words_that_are_not_known_are_refused() {
    for words in [&[][..], &["rpm"], &["deb", "--tests"], &["tar", "--profile"]] {
        let why = xtask::package::make(words).unwrap_err();
        assert!(why.starts_with("usage: "), "{words:?}: {why}");
    }
}
