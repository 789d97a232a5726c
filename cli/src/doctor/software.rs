// SPDX-License-Identifier: MPL-2.0
//! What programs will load, and what the environment tells it.

use zmq_rdma::abi::env::VARIABLES;

use super::{Finding, Level};
use crate::zmq;

/// What was found.
pub fn judge() -> Vec<Finding> {
    let mut findings = vec![library()];
    for variable in VARIABLES {
        if let Err(words) = variable.get() {
            let says =
                format!("{words}. Because of this, every bind and connect over rdma:// fails.");
            let finding = Finding::new(Level::Bad, "environment", says);
            findings.push(finding.mend(format!("unset {}", variable.name)));
        }
    }
    findings
}

/// The libzmq that a program finds.
fn library() -> Finding {
    let by_name = zmq::Library::by_name();
    let beside = zmq::Library::beside();
    match (by_name, beside) {
        (Ok(found), _) if found.has_rdma() => Finding::new(
            Level::Ok,
            "library",
            format!("Programs load {}: libzmq {} with rdma://.", found.path(), found.version()),
        ),
        (Ok(found), Some(ours)) => Finding::new(
            Level::Warn,
            "library",
            format!(
                "Programs load {}, a libzmq {} without rdma://; the one with it is {}.",
                found.path(),
                found.version(),
                ours.path()
            ),
        )
        .mend(by_path(&ours))
        .mend("for all programs: add its directory to /etc/ld.so.conf.d, then run ldconfig"),
        (Err(_), Some(ours)) => Finding::new(
            Level::Warn,
            "library",
            format!("Programs do not find libzmq.so.5 by themselves; it is {}.", ours.path()),
        )
        .mend(by_path(&ours))
        .mend("for all programs: add its directory to /etc/ld.so.conf.d, then run ldconfig"),
        (Ok(found), None) => Finding::new(
            Level::Bad,
            "library",
            format!("Programs load {}, a libzmq without rdma://.", found.path()),
        )
        .mend("install libzmq built with --with-rdma: ./configure --with-rdma && make && make install && ldconfig"),
        (Err(why), None) => Finding::new(
            Level::Bad,
            "library",
            format!("There is no libzmq.so.5 for programs to load ({why})."),
        )
        .mend("./configure --with-rdma && make && make install && ldconfig"),
    }
}

fn by_path(ours: &zmq::Library) -> String {
    let path = std::path::Path::new(ours.path());
    let directory = path.parent().unwrap_or(path).display();
    format!("for one program: LD_LIBRARY_PATH={directory} PROGRAM")
}
