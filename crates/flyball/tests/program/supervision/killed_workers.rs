//! A worker that dies in the middle of what it does: a crash, or a second order to stop.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use flyball_testkit::{Client, wait};

use crate::common::{
    Launch, Server, Site, architectures, children, descendants, is_running, signal, text, wait_for,
    within, write_script,
};

/// Time enough for a program to see the end of its input.
const MOMENT: Duration = Duration::from_millis(200);

/// The part of a body in chunks that comes, and is not the whole.
const PART: &str = "PUT /cgi/put HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                    5\r\nhello\r\n";

/// The process that starts programs, whose child this one is.
fn starter_of(server: &Server) -> u32 {
    wait_for("a program that runs", || {
        children(server.master()).into_iter().find(|process| !children(*process).is_empty())
    })
}

/// The kernel closes what a dead worker had open, and the process that would end the program learns
/// of it no sooner: here it is held until the program would have taken the part.
#[test]
fn a_program_takes_no_part_of_a_body_for_the_whole_when_its_worker_is_killed() {
    for arch in ["n-copy", "mp", "mt", "uring"].iter().filter(|arch| architectures().contains(arch))
    {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let site = Site::with(&[("page", b"page")]);
        let whole = within(&directory, "whole");
        let script = format!("cat > /dev/null\n: > {}\necho Status: 204\necho", text(&whole));
        write_script(&within(&directory, "put"), &script);
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).expect("open");
        let config = within(&directory, "flyball.toml");
        let lines = format!(
            "arch = \"{arch}\"\nworkers = 1\nmp.processes = 1\nlisten = \"127.0.0.1:0\"\n\
             [[site]]\nroot = {:?}\n[[site.cgi]]\npath = \"/cgi\"\nroot = {:?}\nhold = \"off\"\n",
            site.path(),
            directory.path()
        );
        std::fs::write(&config, lines).expect("it is written");
        let server = Launch::bare::<&str>(&[]).args(&["--config", text(&config)]).start();
        // One that is whole is taken.
        let mut client = server.connect();
        client.send(PART.to_owned() + "0\r\n\r\n");
        assert_eq!(client.response().status(), 204, "{arch}");
        std::fs::remove_file(&whole).expect("it has taken the body");

        let mut client: Client = server.connect();
        client.send(PART);
        let starter = starter_of(&server);
        let programs = wait_for("a program that reads", || {
            let programs = descendants(starter);
            (programs.len() > 1).then_some(programs)
        });
        signal(starter, "STOP");
        let workers = children(server.master()).into_iter().filter(|child| *child != starter);
        let workers: Vec<u32> = workers.collect();
        workers.iter().for_each(|worker| signal(*worker, "KILL"));
        wait_for("that no worker of these is left", || {
            workers.iter().all(|worker| !is_running(*worker)).then_some(())
        });
        wait::dawdle(MOMENT);
        signal(starter, "CONT");
        wait_for("that the programs are ended", || {
            programs.iter().all(|program| !is_running(*program)).then_some(())
        });
        assert!(!whole.exists(), "{arch}: it has taken the part for the whole");
    }
}
