// SPDX-License-Identifier: MPL-2.0
//! ZMTP's greeting, there and back.

use std::time::{Duration, Instant};

use zmq_rdma::error::Error;
use zmq_rdma::stream::link::Link;

use super::{Stopped, Trial};
use crate::doctor::{Finding, Level};

/// Bytes of ZMTP's greeting.
const GREETING: usize = 64;
/// Where its parts are.
const VERSION: usize = 10;
const MECHANISM: std::ops::Range<usize> = 12..32;

/// ZMTP's greeting there and back, and a close in good order.
pub(super) fn exchange(mut link: Link, trial: &mut Trial) -> Result<String, Stopped> {
    let theirs = match greet(&mut link, trial) {
        Ok(theirs) => theirs,
        Err(error) => {
            let says = format!("{}: {error}", link.peer_addr());
            let finding = Finding::new(Level::Bad, "exchange", says);
            return Err(trial.stop(finding.mend(
                "the connection stands, but bytes do not come through: check the MTU on the way \
                 (ping -M do -s 8000), and loss",
            )));
        }
    };
    match greeting(&theirs) {
        Some(says) => trial.well("exchange", says),
        None => {
            let says = "bytes come through, but they are not ZMTP's: a raw socket (ZMQ_STREAM)?";
            trial.went(Finding::new(Level::Note, "exchange", says));
        }
    }
    let device = link.device().trim_start_matches("verbs:").to_string();
    part(link, trial);
    Ok(device)
}

fn greet(link: &mut Link, trial: &Trial) -> Result<Vec<u8>, Error> {
    let mut ours = [0u8; GREETING];
    (ours[0], ours[8], ours[9], ours[VERSION], ours[VERSION + 1]) = (0xff, 1, 0x7f, 3, 1);
    ours[MECHANISM.start..MECHANISM.start + 4].copy_from_slice(b"NULL");
    let mut sent = 0;
    let mut theirs = Vec::new();
    loop {
        link.crank();
        while sent < ours.len() {
            match link.write(&ours[sent..]) {
                Ok(n) => sent += n,
                Err(Error::Again) => break,
                Err(why) => return Err(link.death().cloned().unwrap_or(why)),
            }
        }
        loop {
            match link.chunk() {
                Ok(chunk) => {
                    let n = chunk.len();
                    theirs.extend_from_slice(chunk);
                    link.consume(n);
                }
                Err(Error::Again) => break,
                Err(_) if theirs.len() >= GREETING => break,
                Err(why) => return Err(why),
            }
        }
        link.replenish();
        if theirs.len() >= GREETING {
            return Ok(theirs);
        }
        if !trial.wait(link.ready()) {
            // A raw socket says nothing by itself.
            return if sent == ours.len() && link.is_open() {
                Ok(theirs)
            } else {
                Err(Error::TimedOut)
            };
        }
    }
}

/// What the peer's greeting says; `None`: it is none.
fn greeting(theirs: &[u8]) -> Option<String> {
    let theirs = theirs.get(..GREETING)?;
    if theirs[0] != 0xff || theirs[9] & 1 != 1 {
        return None;
    }
    let name = theirs[MECHANISM].split(|&b| b == 0).next().unwrap_or(&[]);
    Some(format!(
        "it speaks ZMTP {}.{}, security {}",
        theirs[VERSION],
        theirs[VERSION + 1],
        String::from_utf8_lossy(name)
    ))
}

/// Close in good order, with some patience.
fn part(mut link: Link, trial: &mut Trial) {
    link.shut();
    trial.since = Instant::now();
    trial.limit = trial.limit.min(Duration::from_secs(2));
    loop {
        let state = link.state();
        if state.finished || state.dead || !trial.wait(link.ready()) {
            return;
        }
        link.crank();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_told_in_words() {
        let mut bytes = [0u8; 64];
        (bytes[0], bytes[9], bytes[10], bytes[11]) = (0xff, 0x7f, 3, 1);
        bytes[12..17].copy_from_slice(b"CURVE");
        assert_eq!(
            greeting(&bytes).unwrap(),
            "it speaks ZMTP 3.1, security CURVE"
        );
        assert_eq!(greeting(&bytes[..63]), None);
        assert_eq!(greeting(&[0; 64]), None);
    }
}
