// SPDX-License-Identifier: MPL-2.0
//! Steering tags of one connection: which memory of ours the peer may READ or
//! WRITE. Tags are random; each connection has its own table, so that one peer's tags mean
//! nothing to another. Tagged offsets begin at 0: no address leaves the process.

use std::collections::HashMap;
use std::mem::MaybeUninit;

use super::tcp;
use crate::device::region::{Exposed, Sink};
use crate::device::Remote;
use crate::error::{Error, Result};
use crate::wire::ddp::{Access, Window};

/// Memory behind a tag, and the right that it gives.
#[derive(Debug)]
pub(super) enum Memory {
    /// The peer may READ it.
    Source(Exposed),
    /// The peer may WRITE it.
    Target(Sink),
}

#[derive(Debug)]
struct Entry {
    memory: Memory,
    /// READs of it that are asked for and not answered in full.
    owed: u32,
    /// No further use is granted.
    withdrawn: bool,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Stags {
    entries: HashMap<u32, Entry>,
}

impl Stags {
    /// Let the peer at `memory`.
    pub fn grant(&mut self, memory: Memory) -> Result<Remote> {
        let len = match &memory {
            Memory::Source(source) => source.len(),
            Memory::Target(target) => target.len(),
        };
        let len = u32::try_from(len).map_err(|_| Error::Misuse("exposed 4 GiB or more"))?;
        let key = self.unused()?;
        let entry = Entry {
            memory,
            owed: 0,
            withdrawn: false,
        };
        self.entries.insert(key, entry);
        Ok(Remote { key, addr: 0, len })
    }

    /// Take it back. `Again` while an answer from it is under way: no new one begins.
    pub fn withdraw(&mut self, key: u32) -> Result<()> {
        let Some(entry) = self.entries.get_mut(&key) else {
            return Err(Error::Misuse("hiding what is not exposed"));
        };
        entry.withdrawn = true;
        if entry.owed > 0 {
            return Err(Error::Again);
        }
        self.entries.remove(&key);
        Ok(())
    }

    /// The peer invalidates a tag; false when it has none such.
    pub fn invalidate(&mut self, key: u32) -> bool {
        match self.entries.get_mut(&key) {
            Some(entry) if !entry.withdrawn => {
                entry.withdrawn = true;
                true
            }
            _ => false,
        }
    }

    /// What the peer may READ by a tag.
    pub fn readable(&self, key: u32) -> Access {
        self.access(key, |memory| match memory {
            Memory::Source(source) => Some(source.len()),
            Memory::Target(_) => None,
        })
    }

    /// What the peer may WRITE by a tag.
    pub fn writable(&self, key: u32) -> Access {
        self.access(key, |memory| match memory {
            Memory::Source(_) => None,
            Memory::Target(target) => Some(target.len()),
        })
    }

    fn access(&self, key: u32, size: impl Fn(&Memory) -> Option<usize>) -> Access {
        match self.entries.get(&key) {
            Some(entry) if !entry.withdrawn => match size(&entry.memory) {
                Some(len) => Access::Granted(Window {
                    base: 0,
                    len: len as u64,
                }),
                None => Access::Denied,
            },
            _ => Access::Unknown,
        }
    }

    /// An answer from this memory is owed: it stays until `settle`.
    pub fn owe(&mut self, key: u32) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.owed += 1;
        }
    }

    /// The answer has been handed over.
    pub fn settle(&mut self, key: u32) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.owed = entry.owed.saturating_sub(1);
        }
    }

    /// The memory that an answer is owed from.
    pub fn source(&self, key: u32) -> Option<Exposed> {
        match self.entries.get(&key)?.memory {
            Memory::Source(source) => Some(source),
            Memory::Target(_) => None,
        }
    }

    /// Where a WRITE that was granted goes; `None` when it has been withdrawn since.
    pub fn room(&mut self, key: u32, at: usize, len: usize) -> Option<&mut [MaybeUninit<u8>]> {
        match &mut self.entries.get_mut(&key)?.memory {
            Memory::Source(_) => None,
            Memory::Target(target) => Some(target.room(at, len)),
        }
    }

    /// Copy what a WRITE that was granted brings; false when the memory has been withdrawn since.
    pub fn write(&mut self, key: u32, at: usize, bytes: &[u8]) -> bool {
        match self.entries.get_mut(&key) {
            Some(Entry {
                memory: Memory::Target(target),
                ..
            }) => {
                target.write(at, bytes);
                true
            }
            _ => false,
        }
    }

    /// A tag that nobody can guess and nobody has. Not 0, which looks like none.
    pub fn unused(&self) -> Result<u32> {
        loop {
            let key = tcp::random()?;
            if key != 0 && !self.entries.contains_key(&key) {
                return Ok(key);
            }
        }
    }
}
