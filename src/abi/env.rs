// SPDX-License-Identifier: MPL-2.0
//! What the environment says. Read at each listen and dial, so that a program
//! may set it before its first socket.

use super::types::{ZMQ_RDMA_DEVICE_AUTO, ZMQ_RDMA_DEVICE_SOFT, ZMQ_RDMA_DEVICE_VERBS};
use crate::stream::Choice;

/// ZMQ_RDMA_DEVICE: which device may serve; `Err` holds words for the user.
pub fn device() -> Result<i32, String> {
    match std::env::var("ZMQ_RDMA_DEVICE").as_deref() {
        Err(_) | Ok("" | "auto") => Ok(ZMQ_RDMA_DEVICE_AUTO),
        Ok("verbs") => Ok(ZMQ_RDMA_DEVICE_VERBS),
        Ok("soft") => Ok(ZMQ_RDMA_DEVICE_SOFT),
        Ok(other) => Err(format!(
            "ZMQ_RDMA_DEVICE is \"{other}\"; it may be auto, verbs or soft"
        )),
    }
}

/// ZMQ_RDMA_CRC: whether the soft device insists on CRC32C. Default yes.
pub fn crc() -> Result<bool, String> {
    match std::env::var("ZMQ_RDMA_CRC").as_deref() {
        Err(_) | Ok("" | "1" | "on") => Ok(true),
        Ok("0" | "off") => Ok(false),
        Ok(other) => Err(format!("ZMQ_RDMA_CRC is \"{other}\"; it may be on or off")),
    }
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
