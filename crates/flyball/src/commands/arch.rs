//! `flyball arch`: the architectures, and whether each can run here.

use std::process::ExitCode;

use flyball_arch::{ALL, Architecture};
use flyball_sys::sandbox::Kernel;

pub(crate) fn run(json: bool) -> ExitCode {
    let text = if json {
        let list: Vec<_> = ALL.iter().map(|arch| as_json(*arch)).collect();
        format!("{:#}\n", serde_json::Value::from(list))
    } else {
        let all = ALL.iter().map(|arch| as_text(*arch)).collect::<Vec<_>>().join("\n");
        format!("{all}\nsandbox: this kernel has {}\n", Kernel::probe())
    };
    super::print(&text);
    ExitCode::SUCCESS
}

fn as_json(arch: &dyn Architecture) -> serde_json::Value {
    let probe = arch.probe();
    let found = arch.found().into_iter().map(|(feature, here)| (feature, here.into()));
    serde_json::json!({
        "name": arch.name(),
        "about": arch.about(),
        "paper": arch.paper(),
        "needs": arch.needs(),
        "settings": arch.settings().concat(),
        "runs_here": probe.is_ok(),
        "why_not": probe.err(),
        "found": found.collect::<serde_json::Map<_, _>>(),
    })
}

fn as_text(arch: &dyn Architecture) -> String {
    let here = match arch.probe() {
        Ok(()) => "runs here".to_string(),
        Err(why) => format!("cannot run here: {why}"),
    };
    let mut text = format!("{}: {}\n", arch.name(), arch.about());
    let mut line = |what: &str, more: &str| text += &format!("    {what}: {more}\n");
    line("paper", arch.paper());
    line("needs", &format!("{}; {here}", arch.needs()));
    line("settings", &arch.settings().concat().join(", "));
    for (feature, here) in arch.found() {
        line("found", &format!("{feature}: {here}"));
    }
    text
}
