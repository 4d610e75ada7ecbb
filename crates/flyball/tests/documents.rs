//! Pages of the manual and completions are made from the same tables as the help.
#![forbid(unsafe_code)]

use std::process::Command;

use flyball_testkit::binary;

fn docs(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary()).arg("docs").args(arguments).output().expect("it runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

/// The subcommands that help lists.
fn subcommands() -> Vec<String> {
    let listed = flyball::cli::program();
    let shown = listed.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let (code, page) = docs(&["man"]);
    assert_eq!(code, Some(0));
    assert!(page.contains(".TH flyball 1"), "{page}");
    for name in subcommands() {
        let of_it = name.replace('-', "\\-");
        assert!(page.contains(&of_it), "{name} in {page}");
        let (code, page) = docs(&["man", &name]);
        assert_eq!(code, Some(0), "{name}");
        assert!(page.contains(&format!(".TH flyball-{name} 1")), "{page}");
    }
    let (_, serve) = docs(&["man", "serve"]);
    assert!(serve.contains("accept\\-limit"), "{serve}");
    assert_eq!(docs(&["man", "nothing"]).0, Some(2));
    assert_eq!(docs(&["man", "docs"]).0, Some(2));
}

#[test]
fn shells_complete_subcommands_and_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script) = docs(&["completions", shell]);
        assert_eq!(code, Some(0), "{shell}");
        for word in ["explain", "trace", "accept-limit", "slower-than"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (_, script) = docs(&["completions", "bash"]);
    let mut bash = Command::new("bash");
    let output = bash.args(["-n", "-c", &script]).output().expect("bash runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(docs(&["completions", "none"]).0, Some(2));
}
