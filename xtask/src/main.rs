//! `cargo xtask`: repository chores.
#![forbid(unsafe_code)]

use std::process::ExitCode;

mod bench;

const USAGE: &str = "\
usage: cargo xtask CHORE

  tidy        check the house rules that a machine can check
  docs        regenerate the generated documents
  ci ...      format, clippy and all tests, with the time of each; --times, --timed
  package ... make a Debian package (deb) or a static archive (tar), and try it (--test)
  bench ...   compare with nginx and lighttpd";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next();
    let rest: Vec<String> = args.collect();
    match chore.as_deref() {
        Some("tidy") => xtask::tidy::main(),
        Some("docs") => xtask::docs::main(),
        Some("ci") => xtask::ci::main(&rest),
        Some("package") => xtask::package::main(&rest),
        Some("bench") => bench::main(rest),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}
