// SPDX-License-Identifier: MPL-2.0
//! The queue pair: its creation on an id, and posting to it.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use libc::c_int;
use rdma_sys as c;

use super::cm::Id;
use super::cq::Completions;
use super::sys;
use crate::error::Result;

/// Work requests handed to the device at a time.
pub(super) const BATCH: usize = 16;
/// Bytes that go inside the work request itself, the most that the device takes: some refuse
/// what is too much for them (siw takes 80, X722 48, HIP08 32, others none).
const INLINE: [u32; 6] = [192, 128, 80, 48, 32, 0];
/// Receiver not ready: 0.64 ms (the encoding of 0, rdma_cm's choice, means 655 ms).
const MIN_RNR_TIMER: u8 = 12;

/// A queue pair. The id that it was created on owns it and destroys it; see `queues`.
pub(super) struct Qp {
    qp: NonNull<c::ibv_qp>,
    inline: u32,
}

// SAFETY: libibverbs lets any thread post to a queue pair.
unsafe impl Send for Qp {}

/// A stretch of registered memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Piece {
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) key: u32,
}

/// What to post on the send queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) wr_id: u64,
    pub(super) piece: Piece,
    pub(super) kind: Kind,
    pub(super) signaled: bool,
}

/// What to do with a piece.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Send,
    Read { addr: u64, key: u32 },
}

/// What the device settled on at connection; for people and tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes of the path MTU (0 on iWARP).
    pub mtu: u32,
    /// Encoded ACK timeout.
    pub timeout: u8,
    /// Retries without an acknowledgement.
    pub retry: u8,
    /// Retries when the receiver was not ready.
    pub rnr_retry: u8,
    /// Encoded wait before such a retry.
    pub min_rnr_timer: u8,
}

impl Qp {
    /// Create the queue pair of `id`.
    pub(super) fn create(id: &Id, completions: &Completions, recvs: u32, sends: u32) -> Result<Qp> {
        // SAFETY: all zeroes is a valid ibv_qp_init_attr.
        let mut attr: c::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        attr.send_cq = completions.send.as_ptr();
        attr.recv_cq = completions.recv.as_ptr();
        attr.qp_type = c::ibv_qp_type::IBV_QPT_RC;
        attr.cap = c::ibv_qp_cap {
            max_send_wr: sends,
            max_recv_wr: recvs,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        with_most_inline(|most| {
            let mut attr = attr;
            attr.cap.max_inline_data = most;
            let qp = id.create_qp(&mut attr)?;
            Ok(Qp {
                qp,
                inline: attr.cap.max_inline_data.min(most),
            })
        })
    }

    /// Whether the device copies this many bytes as they are posted, so that
    /// their slot is free at once. (siw refuses an empty inline SEND.)
    pub(super) fn takes_inline(&self, len: usize) -> bool {
        len > 0 && len <= self.inline as usize
    }

    /// Post receives, at most [`BATCH`].
    pub(super) fn post_recvs(&self, pieces: &[(u64, Piece)]) -> Result<()> {
        let mut sges = [const { MaybeUninit::<c::ibv_sge>::uninit() }; BATCH];
        let mut wrs = [const { MaybeUninit::<c::ibv_recv_wr>::uninit() }; BATCH];
        let mut next = std::ptr::null_mut();
        for (i, (wr_id, piece)) in pieces.iter().enumerate().rev() {
            let sge = sges[i].write(piece.sge());
            next = wrs[i].write(c::ibv_recv_wr {
                wr_id: *wr_id,
                next,
                sg_list: sge,
                num_sge: 1,
            });
        }
        if next.is_null() {
            return Ok(());
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: a valid queue pair and a chain that ends; the device copies it in this call.
        let ret = unsafe { c::ibv_post_recv(self.as_ptr(), next, &mut bad) };
        sys::number("ibv_post_recv", ret)
    }

    /// Post to the send queue, at most [`BATCH`].
    pub(super) fn post_sends(&self, works: &[Work]) -> Result<()> {
        let mut sges = [const { MaybeUninit::<c::ibv_sge>::uninit() }; BATCH];
        let mut wrs = [const { MaybeUninit::<c::ibv_send_wr>::uninit() }; BATCH];
        let mut next = std::ptr::null_mut();
        for (i, work) in works.iter().enumerate().rev() {
            let sge = sges[i].write(work.piece.sge());
            // SAFETY: all zeroes is a valid ibv_send_wr.
            let wr = wrs[i].write(unsafe { std::mem::zeroed() });
            self.fill(wr, work);
            wr.next = next;
            wr.sg_list = sge;
            next = wr;
        }
        if next.is_null() {
            return Ok(());
        }
        let mut bad = std::ptr::null_mut();
        // SAFETY: a valid queue pair and a chain that ends; the device copies it in this call.
        let ret = unsafe { c::ibv_post_send(self.as_ptr(), next, &mut bad) };
        sys::number("ibv_post_send", ret)
    }

    fn fill(&self, wr: &mut c::ibv_send_wr, work: &Work) {
        wr.wr_id = work.wr_id;
        wr.num_sge = c_int::from(work.piece.len > 0);
        if work.signaled {
            wr.send_flags |= c::ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        match work.kind {
            Kind::Send => {
                wr.opcode = c::ibv_wr_opcode::IBV_WR_SEND;
                if self.takes_inline(work.piece.len as usize) {
                    wr.send_flags |= c::ibv_send_flags::IBV_SEND_INLINE.0;
                }
            }
            Kind::Read { addr, key } => {
                wr.opcode = c::ibv_wr_opcode::IBV_WR_RDMA_READ;
                wr.num_sge = 1;
                wr.wr.rdma = c::rdma_t {
                    remote_addr: addr,
                    rkey: key,
                };
            }
        }
    }

    /// Stop all work: what is posted completes in error.
    pub(super) fn fail(&self) -> Result<()> {
        // SAFETY: all zeroes is a valid ibv_qp_attr.
        let mut attr: c::ibv_qp_attr = unsafe { std::mem::zeroed() };
        attr.qp_state = c::ibv_qp_state::IBV_QPS_ERR;
        // SAFETY: the queue pair lives as long as this; see `queues`.
        unsafe { modify(self.as_ptr(), &mut attr, c::ibv_qp_attr_mask::IBV_QP_STATE) }
    }

    /// As the device has them now.
    pub(super) fn attributes(&self) -> Result<Attributes> {
        // SAFETY: all zeroes is a valid ibv_qp_attr.
        let mut attr: c::ibv_qp_attr = unsafe { std::mem::zeroed() };
        // SAFETY: all zeroes is a valid ibv_qp_init_attr.
        let mut init: c::ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        let mask = c::ibv_qp_attr_mask::IBV_QP_PATH_MTU.0
            | c::ibv_qp_attr_mask::IBV_QP_TIMEOUT.0
            | c::ibv_qp_attr_mask::IBV_QP_RETRY_CNT.0
            | c::ibv_qp_attr_mask::IBV_QP_RNR_RETRY.0
            | c::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER.0;
        // SAFETY: a valid queue pair, and room for both answers.
        let ret = unsafe { c::ibv_query_qp(self.as_ptr(), &mut attr, mask as c_int, &mut init) };
        sys::number("ibv_query_qp", ret)?;
        Ok(Attributes {
            mtu: match attr.path_mtu {
                code @ 1..=5 => 128 << code,
                _ => 0,
            },
            timeout: attr.timeout,
            retry: attr.retry_cnt,
            rnr_retry: attr.rnr_retry,
            min_rnr_timer: attr.min_rnr_timer,
        })
    }

    fn as_ptr(&self) -> *mut c::ibv_qp {
        self.qp.as_ptr()
    }
}

/// What `make` makes, with the most inline bytes with which it does.
fn with_most_inline<T>(mut make: impl FnMut(u32) -> Result<T>) -> Result<T> {
    let [most, less @ ..] = INLINE;
    less.into_iter()
        .fold(make(most), |made, most| made.or_else(|_| make(most)))
}

/// Let a peer that overran our receives try again soon.
pub(super) fn set_min_rnr_timer(id: &Id) -> Result<()> {
    if id.qp().is_null() {
        return Ok(());
    }
    // SAFETY: all zeroes is a valid ibv_qp_attr.
    let mut attr: c::ibv_qp_attr = unsafe { std::mem::zeroed() };
    attr.min_rnr_timer = MIN_RNR_TIMER;
    let mask = c::ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER;
    // SAFETY: the queue pair lives as long as its id.
    unsafe { modify(id.qp(), &mut attr, mask) }
}

/// # Safety
/// `qp` is a queue pair that is not destroyed during the call.
unsafe fn modify(
    qp: *mut c::ibv_qp,
    attr: &mut c::ibv_qp_attr,
    mask: c::ibv_qp_attr_mask,
) -> Result<()> {
    // SAFETY: the caller's; `attr` is valid for the call.
    let ret = unsafe { c::ibv_modify_qp(qp, attr, mask.0 as c_int) };
    sys::number("ibv_modify_qp", ret)
}

impl Piece {
    fn sge(self) -> c::ibv_sge {
        c::ibv_sge {
            addr: self.addr,
            length: self.len,
            lkey: self.key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn a_device_that_refuses_inline_data_has_a_queue_pair_all_the_same() {
        let refused = Error::Device {
            op: "rdma_create_qp",
            code: libc::EINVAL,
        };
        for (device, most) in [
            (1024, 192),
            (191, 128),
            (80, 80),
            (60, 48),
            (32, 32),
            (0, 0),
        ] {
            let made = with_most_inline(|bytes| match bytes <= device {
                true => Ok(bytes),
                false => Err(refused.clone()),
            });
            assert_eq!(made, Ok(most));
        }
        let mut tries = 0;
        let made: Result<()> = with_most_inline(|_| {
            tries += 1;
            Err(refused.clone())
        });
        assert_eq!((made, tries), (Err(refused), INLINE.len()));
    }
}
