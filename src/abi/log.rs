// SPDX-License-Identifier: MPL-2.0
//! The log line: to standard error, one write a line, at the level that
//! ZMQ_RDMA_LOG asks for.
//! A reader that is stopped or gone loses lines, and holds up nobody.
//! A line that repeats within ten seconds is counted, not written again, so a
//! client that retries ten times a second does not flood the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use super::env;
use crate::os::{stderr, PerProcess};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something the user must know.
    Error,
    /// Something that may explain trouble.
    Warn,
    /// Connections made and ended.
    Info,
    /// Retries, refusals, sizes.
    Debug,
    /// Everything.
    Trace,
}

const QUIET: Duration = Duration::from_secs(10);
const REMEMBERED: usize = 256;

impl Level {
    /// From a C number.
    pub fn from_code(code: i32) -> Option<Level> {
        Some(match code {
            0 => Level::Error,
            1 => Level::Warn,
            2 => Level::Info,
            3 => Level::Debug,
            4 => Level::Trace,
            _ => return None,
        })
    }

    /// From a name; `None`: off.
    pub fn from_name(name: &str) -> Option<Level> {
        let all = [
            Level::Error,
            Level::Warn,
            Level::Info,
            Level::Debug,
            Level::Trace,
        ];
        all.into_iter().find(|level| level.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

fn threshold() -> Option<Level> {
    static THRESHOLD: OnceLock<Option<Level>> = OnceLock::new();
    *THRESHOLD.get_or_init(|| env::log().unwrap_or(Some(Level::Error)))
}

/// Whether a line of this level would be written.
pub fn enabled(level: Level) -> bool {
    threshold().is_some_and(|most| level <= most)
}

/// Write a line; `text` is made only if the level is wanted.
pub fn line(level: Level, text: impl FnOnce() -> String) {
    if enabled(level) {
        let text = text();
        write_unless_repeated(level, text.clone(), text);
    }
}

/// As `line`, but lines with the same `kind` count as repeats of each other.
pub fn line_of(level: Level, kind: impl FnOnce() -> String, text: impl FnOnce() -> String) {
    if enabled(level) {
        write_unless_repeated(level, kind(), text());
    }
}

fn write_unless_repeated(level: Level, kind: String, text: String) {
    static SEEN: PerProcess<Mutex<Repeats>> = PerProcess::new();
    let mut seen = SEEN.get().lock().unwrap_or_else(|e| e.into_inner());
    if let Some(text) = seen.pass(kind, text, Instant::now()) {
        drop(seen);
        write_line(level, &text);
    }
}

fn write_line(level: Level, text: &str) {
    /// Lines that standard error did not take.
    static LOST: AtomicU32 = AtomicU32::new(0);
    let lost = LOST.swap(0, Ordering::Relaxed);
    let gap = match lost {
        0 => String::new(),
        _ => format!("({lost} lines before this one could not be written) "),
    };
    let line = format!("zmq-rdma: {}: {gap}{text}\n", level.name());
    if !stderr::write(line.as_bytes()) {
        LOST.fetch_add(lost + 1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Repeats(HashMap<String, (Instant, u32)>);

impl Repeats {
    /// The line to write, with a count of those held back; or none.
    fn pass(&mut self, kind: String, text: String, now: Instant) -> Option<String> {
        if let Some((last, held)) = self.0.get_mut(&kind) {
            if now.duration_since(*last) < QUIET {
                *held += 1;
                return None;
            }
            let times = std::mem::take(held);
            *last = now;
            return Some(if times == 0 {
                text
            } else {
                format!("{text} (and {times} times more in between)")
            });
        }
        if self.0.len() >= REMEMBERED {
            self.0
                .retain(|_, (last, _)| now.duration_since(*last) < QUIET);
        }
        if self.0.len() < REMEMBERED {
            self.0.insert(kind, (now, 0));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_repeats_is_counted() {
        let mut repeats = Repeats::default();
        let start = Instant::now();
        let mut pass = |kind: &str, text: &str, at| repeats.pass(kind.into(), text.into(), at);
        assert_eq!(pass("a", "from 1", start).as_deref(), Some("from 1"));
        assert_eq!(pass("a", "from 2", start), None);
        assert_eq!(pass("b", "else", start).as_deref(), Some("else"));
        assert_eq!(
            pass("a", "from 3", start + QUIET).as_deref(),
            Some("from 3 (and 1 times more in between)")
        );
    }

    #[test]
    fn memory_for_repeats_is_bounded() {
        let mut repeats = Repeats::default();
        let start = Instant::now();
        for i in 0..10_000 {
            assert!(repeats.pass(i.to_string(), String::new(), start).is_some());
        }
        assert!(repeats.0.len() <= REMEMBERED);
    }

    #[test]
    fn levels_are_in_order() {
        assert!(Level::Error < Level::Trace);
    }
}
