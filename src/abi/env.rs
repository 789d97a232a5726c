// SPDX-License-Identifier: MPL-2.0
//! What the environment says. Read when a user's thread binds or connects, so that a program
//! may set it before its first socket, and kept: a thread of ours that read it while the program
//! changes it would read memory that C has freed.
//!
//! [`VARIABLES`] is the one list of what a user may set. All reading goes through
//! it; tests hold the manual and the C header against it; `zmq-rdma info` prints it.

use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard};

use super::log::Level;
use super::types::{
    ZMQ_RDMA_BUSY_POLL_ADAPTIVE, ZMQ_RDMA_BUSY_POLL_ALWAYS, ZMQ_RDMA_DEVICE, ZMQ_RDMA_DEVICE_AUTO,
    ZMQ_RDMA_DEVICE_ENVIRONMENT, ZMQ_RDMA_DEVICE_SOFT, ZMQ_RDMA_DEVICE_VERBS,
};
use crate::os::PerProcess;
use crate::stream::sizes::Rendezvous;
use crate::stream::{Choice, POOL_CAP};

/// One environment variable of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it may be; the first is the default. The empty string is the default too.
    pub choices: &'static [&'static str],
    /// Other spellings, with the choice that each is.
    pub aliases: &'static [(&'static str, &'static str)],
    /// The least and the greatest whole number that it may be as well.
    pub numbers: Option<(i32, i32)>,
    /// The socket option of the same name, if there is one.
    pub option: Option<SocketOption>,
    /// What it decides, in one line.
    pub about: &'static str,
}

/// An option of `zmq_setsockopt` (int), which goes before the variable. In C a value's name is the
/// option's with the choice appended: ZMQ_RDMA_DEVICE_SOFT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOption {
    /// Its number.
    pub number: i32,
    /// The value of each choice, in their order.
    pub values: &'static [i32],
    /// The default: as the variable says. In C, with ENVIRONMENT appended.
    pub unset: i32,
}

/// ZMQ_RDMA_DEVICE.
pub const DEVICE: Variable = Variable {
    name: "ZMQ_RDMA_DEVICE",
    choices: &["auto", "verbs", "soft"],
    aliases: &[],
    numbers: None,
    option: Some(SocketOption {
        number: ZMQ_RDMA_DEVICE,
        values: &[
            ZMQ_RDMA_DEVICE_AUTO,
            ZMQ_RDMA_DEVICE_VERBS,
            ZMQ_RDMA_DEVICE_SOFT,
        ],
        unset: ZMQ_RDMA_DEVICE_ENVIRONMENT,
    }),
    about: "which device serves a bind or connect",
};

/// ZMQ_RDMA_LOG.
pub const LOG: Variable = Variable {
    name: "ZMQ_RDMA_LOG",
    choices: &["error", "off", "warn", "info", "debug", "trace"],
    aliases: &[],
    numbers: None,
    option: None,
    about: "what is written to standard error",
};

/// ZMQ_RDMA_CRC.
pub const CRC: Variable = Variable {
    name: "ZMQ_RDMA_CRC",
    choices: &["on", "off"],
    aliases: &[("1", "on"), ("0", "off")],
    numbers: None,
    option: None,
    about: "whether the device soft insists on CRC32C",
};

/// ZMQ_RDMA_STATS.
pub const STATS: Variable = Variable {
    name: "ZMQ_RDMA_STATS",
    choices: &["off", "on"],
    aliases: &[("0", "off"), ("1", "on")],
    numbers: None,
    option: None,
    about: "whether zmq-rdma top may read this process's counters",
};

/// ZMQ_RDMA_BUSY_POLL.
pub const BUSY_POLL: Variable = Variable {
    name: "ZMQ_RDMA_BUSY_POLL",
    choices: &["adaptive", "never", "always"],
    aliases: &[("0", "never"), ("-1", "always")],
    numbers: Some((1, 1_000_000)),
    option: None,
    about: "microseconds that a thread looks for messages before it sleeps",
};

/// ZMQ_RDMA_RENDEZVOUS.
pub const RENDEZVOUS: Variable = Variable {
    name: "ZMQ_RDMA_RENDEZVOUS",
    choices: &["auto", "off"],
    aliases: &[("0", "off")],
    numbers: Some((1, i32::MAX)),
    option: None,
    about: "bytes from which a message is READ by its receiver, not copied",
};

/// ZMQ_RDMA_POOL.
pub const POOL: Variable = Variable {
    name: "ZMQ_RDMA_POOL",
    choices: &["auto", "off"],
    aliases: &[("0", "off")],
    numbers: Some((1, 1 << 20)),
    option: None,
    about: "mebibytes of memory kept for messages that are READ",
};

/// All of them.
pub const VARIABLES: &[Variable] = &[DEVICE, LOG, CRC, STATS, BUSY_POLL, RENDEZVOUS, POOL];

/// The text of each variable, in their order.
type Words = [Option<OsString>; VARIABLES.len()];

fn words() -> Words {
    std::array::from_fn(|at| std::env::var_os(VARIABLES[at].name))
}

/// What was read last.
fn known() -> MutexGuard<'static, Option<Words>> {
    static KNOWN: PerProcess<Mutex<Option<Words>>> = PerProcess::new();
    KNOWN.get().lock().unwrap_or_else(|e| e.into_inner())
}

/// Read the environment as it is now; it counts until this is called again. For the threads of the
/// program alone, who know when it does not change.
pub fn read() {
    let now = words();
    *known() = Some(now);
}

impl Variable {
    /// What was set when the environment was [`read`]; `Err` holds words for the user.
    pub fn get(&self) -> Result<Cow<'static, str>, String> {
        let at = VARIABLES.iter().position(|one| one.name == self.name);
        let text = at.and_then(|at| known().get_or_insert_with(words)[at].clone());
        match text {
            None => Ok(self.choices[0].into()),
            Some(text) => self.read(&text.to_string_lossy()),
        }
    }

    fn read(&self, text: &str) -> Result<Cow<'static, str>, String> {
        if text.is_empty() {
            return Ok(self.choices[0].into());
        }
        let alias = self.aliases.iter().find(|(other, _)| *other == text);
        let text = alias.map_or(text, |(_, choice)| choice);
        if let Some(choice) = self.choices.iter().find(|choice| **choice == text) {
            return Ok((*choice).into());
        }
        match (self.numbers, text.parse::<i32>()) {
            (Some((least, most)), Ok(n)) if (least..=most).contains(&n) => Ok(n.to_string().into()),
            _ => Err(self.complaint(text)),
        }
    }

    /// That it cannot be `text`, and what it can.
    fn complaint(&self, text: &str) -> String {
        let mut may: Vec<_> = self.choices.iter().map(ToString::to_string).collect();
        may.extend(
            self.numbers
                .map(|(least, most)| format!("a number from {least} to {most}")),
        );
        let last = may.pop().unwrap_or_default();
        let name = self.name;
        format!(
            "{name} is \"{text}\"; it may be {} or {last}",
            may.join(", ")
        )
    }
}

/// Which device may serve.
pub fn device() -> Result<i32, String> {
    let chosen = DEVICE.get()?;
    let at = DEVICE.choices.iter().position(|choice| *choice == chosen);
    let values = DEVICE.option.map_or(&[][..], |option| option.values);
    let value = at.and_then(|at| values.get(at));
    Ok(value.copied().unwrap_or(ZMQ_RDMA_DEVICE_AUTO))
}

/// Whether the soft device insists on CRC32C.
pub fn crc() -> Result<bool, String> {
    CRC.get().map(|choice| choice == "on")
}

/// Whether others may read the counters.
pub fn stats() -> Result<bool, String> {
    STATS.get().map(|choice| choice == "on")
}

/// The least level that is written; `None`: nothing is.
pub fn log() -> Result<Option<Level>, String> {
    LOG.get().map(|name| Level::from_name(&name))
}

/// From what size on messages are READ by their receiver.
pub fn rendezvous() -> Result<Rendezvous, String> {
    Ok(match &*RENDEZVOUS.get()? {
        "off" => Rendezvous::Off,
        "auto" => Rendezvous::Auto,
        number => number.parse().map_or(Rendezvous::Auto, Rendezvous::From),
    })
}

/// Bytes that the pool of large messages may take; 0: there is none.
pub fn pool() -> Result<usize, String> {
    Ok(match &*POOL.get()? {
        "off" => 0,
        number => number.parse().map_or(POOL_CAP, |mib: usize| mib << 20),
    })
}

/// How long a thread looks before it sleeps: microseconds, or a ZMQ_RDMA_BUSY_POLL_ value.
pub fn busy_poll() -> Result<i32, String> {
    Ok(match &*BUSY_POLL.get()? {
        "never" => 0,
        "always" => ZMQ_RDMA_BUSY_POLL_ALWAYS,
        number => number.parse().unwrap_or(ZMQ_RDMA_BUSY_POLL_ADAPTIVE),
    })
}

/// A C number as a choice.
pub fn choice(device: i32) -> Option<Choice> {
    Some(match device {
        ZMQ_RDMA_DEVICE_AUTO => Choice::Auto,
        ZMQ_RDMA_DEVICE_VERBS => Choice::Verbs,
        ZMQ_RDMA_DEVICE_SOFT => Choice::Soft,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_choice_is_told_with_those_that_are() {
        assert_eq!(DEVICE.read("soft").unwrap(), "soft");
        assert_eq!(DEVICE.read("").unwrap(), "auto");
        assert_eq!(CRC.read("0").unwrap(), "off");
        let words = DEVICE.read("Soft").unwrap_err();
        assert_eq!(
            words,
            "ZMQ_RDMA_DEVICE is \"Soft\"; it may be auto, verbs or soft"
        );
    }

    #[test]
    fn a_number_has_its_range() {
        assert_eq!(BUSY_POLL.read("1000000").unwrap(), "1000000");
        assert_eq!(BUSY_POLL.read("0").unwrap(), "never");
        for wrong in ["-2", "1000001", "1.5", "99999999999", "5us"] {
            let words = BUSY_POLL.read(wrong).unwrap_err();
            assert_eq!(
                words,
                format!(
                    "ZMQ_RDMA_BUSY_POLL is \"{wrong}\"; it may be adaptive, never, always or \
                     a number from 1 to 1000000"
                )
            );
        }
        assert!(DEVICE.read("1").is_err());
    }

    #[test]
    fn each_choice_of_a_device_is_a_value_of_the_option() {
        let option = DEVICE.option.unwrap();
        assert_eq!(option.values.len(), DEVICE.choices.len());
        for (name, value) in DEVICE.choices.iter().zip(option.values) {
            let said = format!("{:?}", choice(*value).unwrap()).to_lowercase();
            assert_eq!(said, *name);
        }
        assert_eq!(choice(option.unset), None);
    }

    #[test]
    fn each_level_of_the_log_has_its_name() {
        for name in LOG.choices {
            let level = Level::from_name(name);
            assert_eq!(level.map_or("off", Level::name), *name);
        }
    }
}
