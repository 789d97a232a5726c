// SPDX-License-Identifier: MPL-2.0
//! Every target on its corpus and on inputs made from it by chance, without
//! libFuzzer: `cargo test`. Arguments: names of targets (default: all).
//! ZMQ_RDMA_FUZZ_RUNS: inputs made for each (default 2000).

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{fs, panic};

use zmq_rdma_fuzz::{Body, TARGETS};

/// Numbers that look random and are not (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(name);
    let mut files: Vec<PathBuf> = fs::read_dir(&directory)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.sort();
    assert!(!files.is_empty(), "no corpus in {}", directory.display());
    let read = |path: &PathBuf| fs::read(path).expect("a file of the corpus");
    files.iter().map(read).collect()
}

/// One of the corpus with some bytes changed, taken out or put in.
fn made(corpus: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = corpus[chance.below(corpus.len())].clone();
    for _ in 0..1 + chance.below(8) {
        let at = chance.below(bytes.len());
        match chance.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 if !bytes.is_empty() => bytes[at] = chance.next() as u8,
            2 => bytes.truncate(at),
            3 => bytes.extend((0..chance.below(64)).map(|_| chance.next() as u8)),
            _ => {
                let other = &corpus[chance.below(corpus.len())];
                let from = chance.below(other.len());
                let piece = other[from..].to_vec();
                bytes.splice(at.min(bytes.len()).., piece);
            }
        }
    }
    bytes
}

fn run(name: &str, body: Body, runs: usize) -> bool {
    let start = Instant::now();
    let corpus = corpus(name);
    let mut chance = Chance(1);
    for n in 0..corpus.len() + runs {
        let input = match corpus.get(n) {
            Some(input) => input.clone(),
            None => made(&corpus, &mut chance),
        };
        if panic::catch_unwind(|| body(&input)).is_err() {
            let file = std::env::temp_dir().join(format!("zmq-rdma-fuzz-{name}"));
            fs::write(&file, &input).expect("a file for the input");
            println!("{name}: FAILED on input {n}, kept in {}", file.display());
            return false;
        }
    }
    let took = start.elapsed().as_secs_f32();
    println!(
        "{name}: {} of the corpus, {runs} made, {took:.1} s",
        corpus.len()
    );
    true
}

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let runs = std::env::var("ZMQ_RDMA_FUZZ_RUNS").map_or(2000, |n| n.parse().expect("a number"));
    let chosen: Vec<_> = TARGETS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|want| want == name))
        .collect();
    assert!(!chosen.is_empty(), "no such target");
    let failed = chosen
        .iter()
        .filter(|(name, body)| !run(name, *body, runs))
        .count();
    println!("{} targets passed, {failed} failed", chosen.len() - failed);
    std::process::exit(i32::from(failed > 0));
}
