// SPDX-License-Identifier: MPL-2.0
//! Where words go: text for people or JSON for machines, to standard output;
//! complaints to standard error. A closed pipe is an error to hand up, never a panic.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Columns of a line of text.
const WIDTH: usize = 96;

/// Standard output.
pub struct Out {
    json: bool,
    to: Box<dyn Write>,
}

impl Out {
    /// `json`: for machines.
    pub fn new(json: bool) -> Out {
        Out {
            json,
            to: Box::new(io::stdout()),
        }
    }

    /// For machines.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Somebody looks at it as it comes.
    pub fn is_terminal(&self) -> bool {
        !self.json && io::stdout().is_terminal()
    }

    /// A line for people; nothing for machines.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        // Names come from elsewhere: none of them moves the cursor.
        let plain = text.trim_end().replace(char::is_control, "?");
        writeln!(self.to, "{plain}")
    }

    /// A paragraph for people, each line of it indented.
    pub fn wrapped(&mut self, first: &str, rest: &str, text: &str) -> io::Result<()> {
        for line in wrap(first, rest, text) {
            self.line(&line)?;
        }
        Ok(())
    }

    /// A value for machines, on a line of its own; nothing for people.
    pub fn value<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string(value).map_err(io::Error::other)?;
        writeln!(self.to, "{text}")
    }

    /// Begin the screen anew, on a terminal.
    pub fn clear(&mut self) -> io::Result<()> {
        if self.is_terminal() {
            write!(self.to, "\x1b[H\x1b[2J")?;
        }
        self.to.flush()
    }

    /// Out with it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// One line on standard error.
pub fn complain(text: &str) {
    // Nothing can be done about a standard error that is closed.
    let _ = writeln!(io::stderr(), "zmq-rdma: {text}");
}

fn wrap(first: &str, rest: &str, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_string();
    let mut empty = true;
    for word in text.split_whitespace() {
        let long = line.chars().count() + 1 + word.chars().count() > WIDTH;
        if long && !empty {
            lines.push(std::mem::replace(&mut line, rest.to_string()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// Bytes in the unit that suits.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{n} B"),
        _ if value < 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Lines of columns, each as wide as its widest cell; numbers (all but the
/// columns named left) to the right.
pub fn table(head: &[&str], left: &[usize], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        widest.max(head[column].chars().count())
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells.enumerate().map(|(column, cell)| {
            let w = widths[column];
            if left.contains(&column) {
                format!("{cell:<w$}")
            } else {
                format!("{cell:>w$}")
            }
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let mut lines = vec![line(&mut head.iter().copied())];
    lines.extend(
        rows.iter()
            .map(|row| line(&mut row.iter().map(String::as_str))),
    );
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_and_indented() {
        let text = "word ".repeat(40);
        let lines = wrap("ok  ", "    ", &text);
        assert!(lines.len() > 2 && lines[0].starts_with("ok  word"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
        assert!(lines[1].starts_with("    word"));
        let long = "x".repeat(300);
        assert_eq!(wrap("- ", "  ", &long), [format!("- {long}")]);
    }

    #[test]
    fn bytes_have_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(8200), "8.0 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
    }

    #[test]
    fn columns_line_up() {
        let rows = [
            vec!["a".into(), "10".into()],
            vec!["long".into(), "5".into()],
        ];
        let lines = table(&["name", "n"], &[0], &rows);
        assert_eq!(lines, ["name   n", "a     10", "long   5"]);
    }
}
