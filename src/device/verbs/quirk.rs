// SPDX-License-Identifier: MPL-2.0
//! What single drivers need.

use super::cq::Cq;
use super::device::Context;
use super::memlock::Bound;

/// siw's vendor id in its device attributes.
pub(super) const SIW_VENDOR: u32 = 0x62_6d74;

/// siw pins by itself, and exempts nobody (siw_umem_get of Linux 6.1).
pub(super) fn holds_to_the_limit(vendor: u32) -> Bound {
    match vendor {
        SIW_VENDOR => Bound::All,
        _ => Bound::Unprivileged,
    }
}

/// rxe's vendor id. Its responder goes on with the answer to a READ on whatever processor the next request arrives, and
/// what it sends from two is not in order: the requester then asks for all of it once more, and after some such times gives the
/// connection up (rxe_resp.c and rxe_comp.c of Linux 6.1). So nothing should follow a READ before it is done.
pub(super) const RXE_VENDOR: u32 = 0xff_ffff;

/// From so many bytes on siw does not copy a SEND that is not signaled, but lets TCP send it
/// out of the caller's memory: still unsent, or to be sent again, when a later completion
/// says that the memory is free (siw_qp_tx.c of Linux 6.1, where it says why signaled ones are copied).
pub(super) const UNCOPIED_FROM: usize = 4096;

/// siw's kernel part hands out the lowest free page offset as the key by which
/// a queue is mapped; its user part takes the key 0x90000 (page 0x90) for
/// "none" and gives up. So a process could have some 36 connections, and no
/// more until one of them goes. A queue that spans that page but does not begin
/// there keeps it from being handed out for good.
///
/// On a fresh context the pages are 0 and up. Completion queues take 32 bytes
/// an entry and 8 more: 129 pages, 9, and 3 bring the next one to page 0x8d.
pub(super) fn occupy_forbidden_key(context: &Context) -> Option<Cq> {
    const BEFORE: [u32; 3] = [16384, 1024, 256];
    const ACROSS: u32 = 512;
    let before = BEFORE.map(|entries| Cq::silent(context, entries));
    let across = Cq::silent(context, ACROSS);
    drop(before);
    // Without it there is only the limit.
    across.ok()
}
