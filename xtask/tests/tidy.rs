//! `cargo test --workspace` holds the house rules.
#![forbid(unsafe_code)]

#[test]
fn the_tree_keeps_the_house_rules() {
    let findings = xtask::tidy::check(&xtask::root()).expect("the tree can be read");
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "{} findings:\n{}", told.len(), told.join("\n"));
}
