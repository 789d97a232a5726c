// SPDX-License-Identifier: MPL-2.0
//! The rules of the house, read off the text: who may import whom (the table
//! of docs/design.md), where `unsafe` may stand, what the machines may not
//! touch, what the manual must say, which report has which test, how long a file may be.

mod imports;
mod reports;

use std::fs;
use std::path::{Path, PathBuf};

use zmq_rdma::abi::env::VARIABLES;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Every file with one of these endings below a directory, in order.
fn files(below: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(below)];
    while let Some(directory) = left.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let ending = path.extension().and_then(|e| e.to_str()).unwrap_or("");
            if path.is_dir() {
                left.push(path);
            } else if endings.contains(&ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path as the rules name it.
fn name(path: &Path) -> String {
    let inside = path.strip_prefix(root()).expect("a file of the project");
    inside.to_string_lossy().into_owned()
}

fn all_well(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Code without line comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line.split("//").next().unwrap_or("")))
}

#[test]
fn imports_follow_the_table() {
    let design = read(&root().join("docs/design.md"));
    let rooms = imports::Rooms::parse(&design);
    assert!(rooms.len() >= 8, "docs/design.md has the table of rooms");
    let mut faults = Vec::new();
    let mut arrows = 0;
    for path in files("src", &["rs"]) {
        let (seen, bad) = rooms.judge(&name(&path), &read(&path));
        arrows += seen;
        faults.extend(bad);
    }
    assert!(
        arrows > 100,
        "only {arrows} imports were found: look at the parser"
    );
    all_well(&faults);
}

#[test]
fn glue_sees_the_header_and_libzmq_only() {
    let mut faults = Vec::new();
    for path in files("glue", &["cpp", "hpp"]) {
        let text = read(&path);
        for (n, line) in code(&text) {
            let verbs =
                line.contains("infiniband/") || line.contains("<rdma/") || line.contains("ibv_");
            let calls = [
                "::socket (",
                "::recv (",
                "::send (",
                "::connect (",
                "epoll_",
            ];
            if verbs || calls.iter().any(|call| line.contains(call)) {
                faults.push(format!(
                    "{}:{n}: verbs and sockets are below the header",
                    name(&path)
                ));
            }
        }
    }
    all_well(&faults);
}

/// Files that may unlock `unsafe_code` for all they hold.
const UNSAFE_FILES: &[&str] = &[
    "src/abi/",
    "src/device/region",
    "src/device/verbs/",
    // The corner of raw descriptors and socket options.
    "src/device/soft/tcp.rs",
    "src/os",
];
/// Files that may unlock it for single items: doors that the contract makes `unsafe`.
const UNSAFE_ITEMS: &[&str] = &[
    "src/device/mod.rs",
    "src/device/fault.rs",
    "src/device/soft/endpoint.rs",
    "src/stream/link.rs",
    "src/stream/link/lend.rs",
    "src/stream/link/ahead.rs",
    "src/stream/link/read.rs",
];

#[test]
fn unsafe_stands_where_it_may() {
    let mut faults = Vec::new();
    for path in files("src", &["rs"]) {
        let name = name(&path);
        if name.contains("tests") {
            continue;
        }
        let whole = UNSAFE_FILES.iter().any(|start| name.starts_with(start));
        let items = UNSAFE_ITEMS.contains(&name.as_str());
        let text = read(&path);
        for (n, line) in code(&text) {
            let file_wide = line.contains("#![allow(unsafe_code)]");
            if (file_wide && !whole) || (line.contains("allow(unsafe_code)") && !whole && !items) {
                faults.push(format!("{name}:{n}: unsafe is not for this room"));
            }
        }
    }
    all_well(&faults);
}

/// Machines take bytes and a clock; they touch nothing.
#[test]
fn wire_and_proto_do_no_io() {
    let world = [
        "std::net",
        "std::io",
        "std::fs",
        "std::thread",
        "std::process",
        "std::env",
        "std::os",
        "libc::",
        "Instant::now",
        "SystemTime",
        "println!",
        "eprintln!",
    ];
    let mut faults = Vec::new();
    for path in files("src/wire", &["rs"])
        .into_iter()
        .chain(files("src/proto", &["rs"]))
    {
        let text = read(&path);
        for (n, line) in code(&text) {
            if let Some(word) = world.iter().find(|word| line.contains(**word)) {
                faults.push(format!("{}:{n}: {word}", name(&path)));
            }
        }
    }
    all_well(&faults);
}

/// A new error must be given an errno by hand.
#[test]
fn errno_has_no_wildcard() {
    let text = read(&root().join("src/abi/errno.rs"));
    let body = text.split("#[cfg(test)]").next().unwrap_or("");
    let wild: Vec<_> = code(body)
        .filter(|(_, line)| line.contains("_ =>"))
        .collect();
    assert!(wild.is_empty(), "src/abi/errno.rs: {wild:?}");
}

#[test]
fn nothing_is_left_lying_about() {
    let mut faults = Vec::new();
    let unfinished = [
        "todo!(",
        "unimplemented!(",
        "dbg!(",
        "FIXME",
        "under construction",
        "thread::sleep",
    ];
    let places = files("src", &["rs"])
        .into_iter()
        .chain(files("glue", &["cpp", "hpp"]));
    for path in places {
        for (n, line) in read(&path).lines().enumerate() {
            if let Some(word) = unfinished.iter().find(|word| line.contains(**word)) {
                faults.push(format!("{}:{}: {word}", name(&path), n + 1));
            }
        }
    }
    all_well(&faults);
}

/// A thing has one noun; these are none.
#[test]
fn names_are_nouns() {
    let weak = ["manager", "helper", "util", "common", "data2", "misc"];
    let mut faults = Vec::new();
    for path in files("src", &["rs"])
        .into_iter()
        .chain(files("glue", &["cpp", "hpp"]))
    {
        let name = name(&path);
        let text = read(&path);
        let declared = code(&text).flat_map(|(_, line)| declared(line));
        let file = path
            .file_stem()
            .and_then(|s| s.to_str())
            .map(str::to_lowercase);
        for noun in declared.chain(file) {
            if noun
                .split('_')
                .any(|part| weak.iter().any(|w| part == *w || part == format!("{w}s")))
            {
                faults.push(format!("{name}: {noun}"));
            }
        }
    }
    all_well(&faults);
}

/// What a line declares, in snake case.
fn declared(line: &str) -> Option<String> {
    let keywords = ["fn", "struct", "enum", "trait", "mod", "type", "class"];
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.find(|word| keywords.contains(word))?;
    let mut snake = String::new();
    for c in words.find(|word| !word.is_empty())?.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    Some(snake)
}

/// What the environment may say is in the manual, and nothing else is.
#[test]
fn manual_and_code_know_the_same_variables() {
    let manual = read(&root().join("docs/zmq_rdma.adoc"));
    let section = manual
        .split("\nENVIRONMENT\n")
        .nth(1)
        .expect("the manual has a section ENVIRONMENT");
    let section = section.split("\n\n\n").next().unwrap_or("");
    let mut told: Vec<_> = section
        .lines()
        .filter_map(|line| line.strip_prefix("*ZMQ_RDMA_")?.split("*::").next())
        .collect();
    let mut known: Vec<_> = VARIABLES
        .iter()
        .map(|variable| &variable.name["ZMQ_RDMA_".len()..])
        .collect();
    told.sort_unstable();
    known.sort_unstable();
    assert_eq!(told, known, "in the manual (left) and in the code (right)");
    for variable in VARIABLES {
        let start = format!("*{}*:: ", variable.name);
        let entry = section.split(&start).nth(1).unwrap_or("");
        let entry = entry.split("\n*ZMQ_").next().unwrap_or("");
        let default = format!("'{}' (default)", variable.choices[0]);
        assert!(entry.contains(&default), "{}: {default}", variable.name);
        for choice in variable.choices {
            let choice = format!("'{choice}'");
            assert!(entry.contains(&choice), "{}: {choice}", variable.name);
        }
        if let Some((least, most)) = variable.numbers {
            let range = format!("from {least} to {most}");
            assert!(entry.contains(&range), "{}: {range}", variable.name);
        }
    }
}

/// Our socket options, their numbers and values are the same in the list, the header and the manual.
#[test]
fn manual_and_header_know_the_same_socket_options() {
    let header = read(&root().join("include/zmq_rdma.h"));
    let manual = read(&root().join("docs/zmq_rdma.adoc"));
    let ours = |line: &&str| line.starts_with("|*ZMQ_RDMA_");
    let rows: Vec<_> = manual.lines().filter(ours).collect();
    let with_option = VARIABLES.iter().filter(|v| v.option.is_some());
    assert_eq!(rows.len(), with_option.clone().count(), "{rows:?}");
    let mut faults = Vec::new();
    for variable in with_option {
        let (name, option) = (variable.name, variable.option.expect("filtered"));
        let start = format!("|*{name}* (int, {},", option.number);
        let row = rows.iter().find(|row| row.starts_with(&start));
        let Some(row) = row else {
            faults.push(format!("the manual has no row {start}"));
            continue;
        };
        let mut values = vec![(format!("{name}_ENVIRONMENT"), option.unset, ", default")];
        for (choice, value) in variable.choices.iter().zip(option.values) {
            values.push((format!("{name}_{}", choice.to_uppercase()), *value, ""));
        }
        let mut defines = vec![format!("#define {name} {}\n", option.number)];
        for (value, number, note) in values {
            defines.push(format!("#define {value} {number}\n"));
            let told = format!("{value} ({number}{note})");
            if !row.contains(&told) {
                faults.push(format!("the manual's row of {name} lacks {told}"));
            }
        }
        let missing = defines.iter().filter(|define| !header.contains(*define));
        faults.extend(missing.map(|define| format!("the header lacks {define}")));
    }
    all_well(&faults);
}

/// Nobody reads the environment past the list, and the header names all that is in it.
#[test]
fn the_list_of_variables_is_the_only_one() {
    let mut faults = Vec::new();
    for path in files("src", &["rs"]) {
        let name = name(&path);
        for (n, line) in code(&read(&path)) {
            if line.contains("env::var") && name != "src/abi/env.rs" {
                faults.push(format!("{name}:{n}: the environment is read past the list"));
            }
        }
    }
    let header = read(&root().join("include/zmq_rdma.h"));
    for variable in VARIABLES {
        if !header.contains(variable.name) {
            faults.push(format!("{} is not in the header", variable.name));
        }
    }
    all_well(&faults);
}

/// Lines of a file that need no reason, and lines that nothing excuses.
const FAIR: usize = 450;
const MOST: usize = 650;
/// Why some are longer. (Tests need no reason.)
const LONG: &[(&str, &str)] = &[
    (
        "src/stream/link.rs",
        "one link's life; what could leave it has left",
    ),
    (
        "glue/rdma_engine.cpp",
        "one class, an engine over a link, and what each of libzmq's calls makes it do",
    ),
];

#[test]
fn files_are_of_a_size_to_be_read() {
    let mut faults = Vec::new();
    let mut places = files("src", &["rs"]);
    places.extend(files("glue", &["cpp", "hpp", "pl"]));
    places.extend(files("cli/src", &["rs"]));
    places.extend(files("tests", &["rs", "py", "c", "cpp"]));
    for path in places {
        let (name, lines) = (name(&path), read(&path).lines().count());
        let reason = LONG
            .iter()
            .find(|(long, _)| *long == name)
            .map(|(_, why)| *why);
        let reason = reason.or(name.contains("tests").then_some("tests"));
        match reason {
            _ if lines > MOST => faults.push(format!("{name}: {lines} lines")),
            None if lines > FAIR => {
                faults.push(format!("{name}: {lines} lines, and no reason in LONG"))
            }
            Some(why) if lines > FAIR => println!("{name}: {lines} lines: {why}"),
            Some("tests") | None => {}
            Some(_) if lines < FAIR - 50 => {
                faults.push(format!("{name}: its {lines} lines need no reason in LONG"))
            }
            Some(_) => {}
        }
    }
    all_well(&faults);
}

/// What differs between systems is in one place.
#[test]
fn one_place_asks_which_system_it_is() {
    let words = [
        "target_os",
        "target_vendor",
        "target_family",
        "windows",
        "unix",
    ];
    let allowed = ["src/lib.rs", "src/os/system.rs"];
    let mut faults = Vec::new();
    for path in files("src", &["rs"]) {
        let name = name(&path);
        let text = read(&path);
        for (n, line) in code(&text) {
            let asks = line.contains("cfg(") || line.contains("cfg!(");
            if asks && !allowed.contains(&name.as_str()) && words.iter().any(|w| line.contains(w)) {
                faults.push(format!("{name}:{n}: {}", line.trim()));
            }
        }
    }
    all_well(&faults);
}
