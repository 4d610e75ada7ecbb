//! A module that aborts, many times over: each time its worker's connections are lost and no other,
//! and another worker takes its place. The build that must have everything has three hundred; more
//! take minutes, since the pause before a worker begins again doubles up to ten seconds.
//! `FLYBALL_ABORTS=10000` has that many.

use std::collections::BTreeSet;

use flyball_testkit::{Client, Launch, Server, as_ourselves, is_strict, wait};

use crate::backend_faults::{MEMORY_MAX, children, holding_of};
use crate::modules;

/// In every run: about three for each worker, which begins again after less than a second.
const FEW: usize = 24;

/// In the build that must have everything.
const MANY: usize = 300;

/// Workers that there are for so few aborts; more share more of them.
const WORKERS: usize = 8;
const WORKERS_MAX: usize = 64;

/// Connections that are held meanwhile, for each worker.
const HELD: usize = 3;

/// Tells the process that it is in, or ends it.
const SOURCE: &str = r#"
#define _POSIX_C_SOURCE 200809L
#include <flyball_module.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int answer(void *self, const flyball_calls *calls, flyball_exchange *x, void **pending)
{
    char text[16];
    (void)self, (void)pending;
    if (calls->request(x, FLYBALL_BELOW).len > 0)
        abort();
    return calls->write(x, text, (size_t)snprintf(text, sizeof text, "%d", (int)getpid())) == 0
               ? FLYBALL_DONE : FLYBALL_FAILED;
}

static const flyball_module where = {
    .abi = FLYBALL_MODULE_ABI, .size = sizeof(flyball_module), .answer = answer,
};

const flyball_module *flyball_module_entry(uint32_t abi)
{
    return abi == FLYBALL_MODULE_ABI ? &where : NULL;
}
"#;

/// A connection, and the worker that has it.
struct Held {
    client: Client,
    worker: u32,
}

impl Held {
    fn new(server: &Server) -> Held {
        let mut client = server.connect();
        let worker = worker_of(&mut client);
        Held { client, worker }
    }
}

fn worker_of(client: &mut Client) -> u32 {
    let answer = client.ask("GET /where HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status(), 200);
    answer.text().parse().expect("the number of a process")
}

/// Has one worker abort. The connections that it held are lost, and made anew.
fn abort_one(server: &Server, held: &mut [Held]) {
    let mut victim = Held::new(server);
    victim.client.send("GET /where/abort HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(victim.client.rest(), b"");
    for one in held {
        if one.worker == victim.worker {
            assert_eq!(one.client.rest(), b"");
            *one = Held::new(server);
        } else {
            assert_eq!(worker_of(&mut one.client), one.worker);
        }
    }
}

#[test]
#[ignore = "full tier"]
fn aborts_of_a_module_cost_the_connections_of_their_worker_and_no_other_every_time() {
    let asked = std::env::var("FLYBALL_ABORTS").ok();
    let usual = if is_strict() { MANY } else { FEW };
    let count = asked.map_or(usual, |count| count.parse().expect("FLYBALL_ABORTS is a number"));
    let workers = (count / 5).clamp(WORKERS, WORKERS_MAX);
    let files = tempfile::tempdir().unwrap();
    let (source, library) = (files.path().join("where.c"), files.path().join("where.so"));
    std::fs::write(&source, SOURCE).unwrap();
    modules::compile(&source, &library, &[]);
    let config = format!(
        "{}arch = \"symped\"\nworkers = {workers}\nlisten = \"127.0.0.1:0\"\n\
         [[site]]\nroot = {:?}\n[[site.module]]\npath = \"/where\"\nlibrary = {library:?}\n",
        as_ourselves(),
        files.path(),
    );
    let server = Launch::config(config).start().unwrap();
    let mut held: Vec<Held> = (0..HELD * workers).map(|_| Held::new(&server)).collect();
    let all_run = || {
        let look = || Some(children(&server)).filter(|all| all.len() == workers);
        wait::until(wait::DEADLINE, look).expect("as many workers as there shall be")
    };
    all_run();
    // What is made once has been made after a few.
    (0..WORKERS / 2).for_each(|_| abort_one(&server, &mut held));
    all_run();
    let before = holding_of(server.pid()).unwrap();
    (WORKERS / 2..count).for_each(|_| abort_one(&server, &mut held));

    let said = || Some(server.errors().matches("ended by signal 6").count());
    let all = wait::until(wait::DEADLINE, || said().filter(|times| *times >= count));
    assert_eq!(all.or_else(said), Some(count), "{}", server.errors());
    let last = all_run();
    let held: BTreeSet<u32> = held.iter().map(|one| one.worker).collect();
    assert!(held.is_subset(&last), "{held:?} of {last:?}");
    let rested = || holding_of(server.pid()).filter(|held| held.descriptors <= before.descriptors);
    let after = wait::until(wait::DEADLINE, rested).expect("as few descriptors as before");
    let grown = after.memory.saturating_sub(before.memory);
    println!("{count} aborts, {grown} bytes more in the master");
    assert!(grown < MEMORY_MAX, "the master has {grown} bytes more");
}
