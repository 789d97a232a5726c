// SPDX-License-Identifier: MPL-2.0
//! docs/reports.md and the tests know the same rows.

use std::collections::BTreeSet;

use crate::{all_well, files, name, read, root};

/// The rows that must have a test, or a word on what stands in its place.
const ROWS: &[u32] = &[
    1, 2, 3, 5, 6, 15, 16, 17, 18, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 35, 36, 38,
    39, 43,
];

/// Every test there is, as docs/reports.md names it.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files("src", &["rs"]).iter().chain(&files("tests", &["rs"])) {
        found.extend(after_mark(&read(path), "#[test]", "fn ").map(|test| format!("fn {test}")));
    }
    for path in files("tests", &["py"]) {
        let file = name(&path);
        let file = file.trim_start_matches("tests/").trim_end_matches(".py");
        found.extend(after_mark(&read(&path), "@test(", "def ").map(|t| format!("{file}/{t}")));
    }
    for path in files("tests/vm/t", &["sh"]) {
        let file = path.file_stem().unwrap_or_default().to_string_lossy();
        let text = read(&path);
        let lines = text.lines().filter_map(|line| line.strip_prefix("test_"));
        found.extend(lines.filter_map(|line| Some(format!("{file}.{}", line.split_once('(')?.0))));
    }
    found
}

/// Names of the functions behind lines that begin with a mark.
fn after_mark<'a>(text: &'a str, mark: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let mut lines = text.lines().map(str::trim_start);
    std::iter::from_fn(move || {
        lines.by_ref().find(|line| line.starts_with(mark))?;
        let line = lines.by_ref().find(|line| line.contains(word))?;
        line.split(word).nth(1)?.split('(').next()
    })
}

/// Row and text of each line of the table.
fn table() -> Vec<(u32, String)> {
    let text = read(&root().join("docs/reports.md"));
    let rows = text.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?;
        let row = cells.split(' ').next()?.parse().ok()?;
        Some((row, cells.to_owned()))
    });
    rows.collect()
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn each_row_of_the_reports_has_its_tests() {
    let tests = tests();
    assert!(tests.len() > 300, "only {} tests found", tests.len());
    let table = table();
    let rows: Vec<_> = table.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, ROWS);
    let mut faults = Vec::new();
    let mut told = BTreeSet::new();
    for (row, text) in &table {
        let named: Vec<_> = quoted(text)
            .filter(|word| word.contains(['/', '.', ' ']))
            .collect();
        if named.is_empty() {
            faults.push(format!("row {row} names no test"));
        }
        for test in named {
            told.insert(test.to_owned());
            if !tests.contains(test) {
                faults.push(format!("row {row}: there is no test `{test}`"));
            }
            if let Some(number) = number(test) {
                if number != *row {
                    faults.push(format!("row {row}: `{test}` is of another"));
                }
            }
        }
    }
    for test in tests.iter().filter(|test| number(test).is_some()) {
        if !told.contains(test) {
            faults.push(format!("`{test}` stands in no row"));
        }
    }
    all_well(&faults);
}

/// The row that a test's name carries.
fn number(test: &str) -> Option<u32> {
    let rest = test.split(['/', ' ']).next_back()?.strip_prefix("row_")?;
    rest.split('_').next()?.parse().ok()
}
