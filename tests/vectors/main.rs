// SPDX-License-Identifier: MPL-2.0
//! iWARP judged by bytes that this library did not make: `iwarp.txt` holds
//! frames derived from the RFCs by hand, `siw.txt` connections of the kernel's siw as they
//! were on the wire. Around them: every cut of the stream, hostile bytes, and properties of the machines.

mod allocations;
mod captured;
mod crc;
mod ddp;
mod fpdu;
mod hostile;
mod rdmap;
mod setup;
mod stream;

/// The frame of this name in `iwarp.txt`.
fn vector(name: &str) -> Vec<u8> {
    section(include_str!("iwarp.txt"), name)
}

/// A section of a file of vectors.
fn section(file: &str, name: &str) -> Vec<u8> {
    let mut lines = file
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim());
    lines
        .find(|line| *line == format!("[{name}]"))
        .unwrap_or_else(|| panic!("no vector named {name}"));
    lines
        .take_while(|line| !line.starts_with('['))
        .flat_map(str::split_whitespace)
        .flat_map(bytes)
        .collect()
}

/// `0a0b` or `0a*3`.
fn bytes(token: &str) -> Vec<u8> {
    let (digits, times) = token.split_once('*').unwrap_or((token, "1"));
    let once: Vec<u8> = (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hexadecimal"))
        .collect();
    once.repeat(times.parse().expect("a count"))
}
