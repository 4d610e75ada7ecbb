//! The two tiers of tests: `cargo test` runs the fast one, and `cargo test -- --ignored` the rest.

/// Makes a function a test of the tier `fast`, or one of those that only the tier `full` has.
///
/// Other tests of the full tier are marked by hand: `#[ignore = "full tier"]`.
#[macro_export]
macro_rules! test_in_tier {
    (fast $name:ident $body:block) => {
        #[test]
        fn $name() $body
    };
    (full $name:ident $body:block) => {
        #[test]
        #[ignore = "full tier"]
        fn $name() $body
    };
}
