// SPDX-License-Identifier: MPL-2.0
//! The table of rooms in docs/design.md, and the imports of a file held
//! against it.

/// A room: a directory of src, and the rooms that it may use.
#[derive(Debug)]
struct Room {
    path: Vec<String>,
    uses: Vec<Vec<String>>,
}

/// The table.
pub struct Rooms(Vec<Room>);

/// Modules that everyone may use.
const FOR_ALL: [&str; 2] = ["error", "os"];

impl Rooms {
    /// Read the table: rows that begin with "| `src/".
    pub fn parse(design: &str) -> Rooms {
        let mut rooms = Vec::new();
        for line in design.lines().filter(|line| line.starts_with("| `src/")) {
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            let uses: Vec<_> = ticked(cells[2])
                .flat_map(|word| branches(&word.replace("::", "/")))
                .collect();
            let contract = cells[2]
                .contains("contract")
                .then(|| vec!["device".to_string()]);
            let uses: Vec<_> = uses.into_iter().chain(contract).collect();
            for place in ticked(cells[1]).flat_map(branches) {
                let path = place[1..].to_vec();
                rooms.push(Room {
                    path,
                    uses: uses.clone(),
                });
            }
        }
        Rooms(rooms)
    }

    /// How many rooms there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The imports seen in a file, and a line for each that the table does not have.
    pub fn judge(&self, file: &str, text: &str) -> (usize, Vec<String>) {
        let module = module_of(file);
        let mut bad = Vec::new();
        let targets = paths(&bare(text), &module);
        let seen = targets.len();
        if module.is_empty() || FOR_ALL.contains(&module[0].as_str()) {
            return (seen, bad);
        }
        let Some(here) = self.room(&module) else {
            // A directory of rooms holds nothing but a list of them.
            let lists = self.0.iter().any(|room| room.path.starts_with(&module));
            if !lists || seen > 0 {
                bad.push(format!("{file}: no room of the table holds it"));
            }
            return (seen, bad);
        };
        for target in targets {
            if target
                .first()
                .is_none_or(|top| FOR_ALL.contains(&top.as_str()))
            {
                continue;
            }
            let fine = match self.room(&target) {
                None => true,
                Some(there) => {
                    there.path == here.path
                        || here.uses.contains(&there.path)
                        || there.path.starts_with(&here.path)
                }
            };
            // A directory that is itself no room, `proto` say, is nobody's to import from.
            let known = self.room(&target).is_some()
                || self.0.iter().any(|room| room.path.starts_with(&target));
            if !fine || !known {
                bad.push(format!("{file}: may not use {}", target.join("::")));
            }
        }
        (seen, bad)
    }

    /// The innermost room that holds a path.
    fn room(&self, path: &[String]) -> Option<&Room> {
        self.0
            .iter()
            .filter(|room| path.starts_with(&room.path))
            .max_by_key(|room| room.path.len())
    }
}

/// What stands between backticks.
fn ticked(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// `a/{b,c}` as `a/b` and `a/c`, each in parts.
fn branches(path: &str) -> Vec<Vec<String>> {
    let parts = |path: &str| {
        path.split('/')
            .filter(|p| !p.is_empty())
            .map(str::to_string)
            .collect()
    };
    match path.split_once('{') {
        None => vec![parts(path)],
        Some((before, rest)) => rest
            .trim_end_matches('}')
            .split(',')
            .map(|one| parts(&format!("{before}{}", one.trim())))
            .collect(),
    }
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are both the module a, b.
fn module_of(file: &str) -> Vec<String> {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Vec<String> = inside.split('/').map(str::to_string).collect();
    if ["mod", "lib"].contains(&module.last().map_or("", String::as_str)) {
        module.pop();
    }
    module
}

/// Text without comments and without what stands in quotes.
fn bare(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or("");
        out.extend(line.split('"').step_by(2));
        out.push('\n');
    }
    out
}

/// Every path that begins with `crate::` or `super::`, from the root of the crate.
fn paths(text: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (start, head) in ["crate::", "super::"]
        .iter()
        .flat_map(|head| text.match_indices(head))
    {
        let before = text[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let mut base: Vec<String> = if head == "crate::" {
            Vec::new()
        } else {
            parent(module)
        };
        let mut rest = &text[start + head.len()..];
        while let Some(further) = rest.strip_prefix("super::") {
            base = parent(&base);
            rest = further;
        }
        expand(&base, &mut rest.chars().peekable(), &mut found);
    }
    found
}

fn parent(module: &[String]) -> Vec<String> {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// One path or tree of paths: `a::{b, c::{d, e}}`.
fn expand(
    base: &[String],
    rest: &mut std::iter::Peekable<std::str::Chars>,
    found: &mut Vec<Vec<String>>,
) {
    let mut path = base.to_vec();
    if rest.next_if_eq(&'{').is_some() {
        return list(&path, rest, found);
    }
    loop {
        let mut word = String::new();
        while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
            word.push(c);
        }
        if !word.is_empty() && word != "self" {
            path.push(word);
        }
        if rest.next_if_eq(&':').is_none() {
            found.push(path);
            return;
        }
        rest.next();
        if rest.next_if_eq(&'{').is_some() {
            list(&path, rest, found);
            return;
        }
    }
}

fn list(
    base: &[String],
    rest: &mut std::iter::Peekable<std::str::Chars>,
    found: &mut Vec<Vec<String>>,
) {
    while let Some(&c) = rest.peek() {
        match c {
            '}' => {
                rest.next();
                return;
            }
            c if c.is_alphanumeric() || c == '_' => {
                expand(base, rest, found);
                // `as name`, and `*`.
                while rest.next_if(|c| !",}".contains(*c)).is_some() {}
            }
            _ => {
                rest.next();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, file: &str) -> Vec<String> {
        paths(&bare(text), &module_of(file))
            .iter()
            .map(|path| path.join("::"))
            .collect()
    }

    #[test]
    fn imports_are_found_in_every_dress() {
        assert_eq!(all("use crate::a::b;", "src/x.rs"), ["a::b"]);
        let nested = "use crate::{a::{self, B}, c::*, d as e};";
        assert_eq!(all(nested, "src/x.rs"), ["a", "a::B", "c", "d"]);
        assert_eq!(
            all("let x = crate::a::f(1); // crate::b", "src/x.rs"),
            ["a::f"]
        );
        assert_eq!(
            all("pub(super) use super::super::q::r;", "src/a/b/c.rs"),
            ["a::q::r"]
        );
        assert_eq!(all("\"crate::a\"", "src/x.rs"), Vec::<String>::new());
    }

    #[test]
    fn a_forbidden_arrow_is_seen() {
        let table = "| `src/wire` | nothing | |\n| `src/proto/{mpa,ddp}` | `wire` | |\n| `src/device` | | |\n\
                     | `src/device/soft` | contract, `proto::{mpa,ddp}` | |\n";
        let rooms = Rooms::parse(table);
        assert_eq!(rooms.len(), 5);
        let faults = |file, text| rooms.judge(file, text).1.len();
        assert_eq!(
            faults("src/proto/mpa/framing.rs", "use crate::wire::mpa;"),
            0
        );
        assert_eq!(
            faults("src/proto/mpa/framing.rs", "use crate::proto::ddp::place;"),
            1
        );
        assert_eq!(
            faults("src/proto/mpa/framing.rs", "use super::super::ddp::place;"),
            1
        );
        assert_eq!(faults("src/wire/mpa.rs", "use crate::error::Error;"), 0);
        assert_eq!(faults("src/wire/mpa.rs", "use crate::device::Event;"), 1);
        assert_eq!(
            faults(
                "src/device/soft/tcp.rs",
                "use crate::device::Event; use crate::proto::mpa::X;"
            ),
            0
        );
        assert_eq!(faults("src/device/soft/tcp.rs", "use crate::wire::mpa;"), 1);
        assert_eq!(
            faults("src/device/mod.rs", "use crate::device::soft::dial;"),
            0
        );
        assert_eq!(faults("src/kitchen/mod.rs", "use crate::wire::mpa;"), 1);
    }
}
