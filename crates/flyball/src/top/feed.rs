//! Asking the server, again and again.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use flyball_server::control;
use flyball_sys::error_log::shown_in_line;
use flyball_sys::net::Endpoint;

use super::sample::Look;

/// Answers that wait to be shown; the thread waits when nobody takes them.
const WAITING_MAX: usize = 4;

/// Longest wait for an answer.
const ANSWER: Duration = Duration::from_secs(3);

/// What a look gave: what there is to see, or why there is nothing.
type News = Result<Look, String>;

/// A thread that looks at a server. It ends when this is dropped.
pub struct Feed {
    news: Receiver<News>,
    /// Dropped to end the thread.
    _going: SyncSender<()>,
}

impl Feed {
    /// Looks now, and then every so often; a server that has gone is looked for again.
    pub fn start(admin: &Endpoint, every: Duration) -> Feed {
        let (tell, news) = sync_channel(WAITING_MAX);
        let (going, stopped) = sync_channel::<()>(0);
        let admin = admin.clone();
        std::thread::spawn(move || {
            let mut due = Instant::now();
            loop {
                if tell.send(ask(&admin)).is_err() {
                    return;
                }
                due = (due + every).max(Instant::now());
                let wait = due.saturating_duration_since(Instant::now());
                // Nothing is ever sent: it ends by the time, or for good.
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        });
        Feed { news, _going: going }
    }

    /// What came since, if anything did.
    pub fn next(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// What comes next. Blocks.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn wait(&self) -> News {
        self.news.recv().unwrap_or_else(|_| Err("the feed has ended".into()))
    }
}

/// Looks once. Blocks for some seconds where no answer comes.
///
/// # Errors
/// Why there is nothing to see.
pub fn ask(admin: &Endpoint) -> News {
    match control::ask_at(admin, "GET", "/status", ANSWER) {
        Ok((200, text)) => Look::read(&text),
        Ok((status, _)) => Err(format!("the server answers with status {status}")),
        Err(why) => Err(shown_in_line(&why)),
    }
}
