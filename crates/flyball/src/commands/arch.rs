//! `flyball arch`: the architectures, and whether each can run here.

use std::process::ExitCode;

use flyball_arch::{ALL, Architecture};

pub(crate) fn run(json: bool) -> ExitCode {
    if json {
        let list: Vec<_> = ALL.iter().map(|arch| as_json(*arch)).collect();
        println!("{:#}", serde_json::Value::from(list));
    } else {
        for arch in ALL {
            print_row(*arch);
        }
    }
    ExitCode::SUCCESS
}

fn as_json(arch: &dyn Architecture) -> serde_json::Value {
    let probe = arch.probe();
    serde_json::json!({
        "name": arch.name(),
        "about": arch.about(),
        "paper": arch.paper(),
        "needs": arch.needs(),
        "settings": arch.settings(),
        "runs_here": probe.is_ok(),
        "why_not": probe.err(),
    })
}

fn print_row(arch: &dyn Architecture) {
    let here = match arch.probe() {
        Ok(()) => "runs here".to_string(),
        Err(why) => format!("cannot run here: {why}"),
    };
    println!("{:<8} {}", arch.name(), arch.about());
    println!("{:<8} paper: {}", "", arch.paper());
    println!("{:<8} needs: {}; {here}", "", arch.needs());
    println!("{:<8} settings: {}", "", arch.settings().join(", "));
    println!();
}
