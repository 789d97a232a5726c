// SPDX-License-Identifier: MPL-2.0
//! What a device tells of itself, apart from completions.

use std::ffi::c_int;
use std::mem::MaybeUninit;

use rdma_sys as c;

use super::super::device::Context;

pub(super) const DEVICE_FATAL: u32 = c::ibv_event_type::IBV_EVENT_DEVICE_FATAL as u32;
pub(super) const CQ_ERR: u32 = c::ibv_event_type::IBV_EVENT_CQ_ERR as u32;
pub(super) const COMM_EST: u32 = c::ibv_event_type::IBV_EVENT_COMM_EST as u32;
pub(super) const PORT_ACTIVE: u32 = c::ibv_event_type::IBV_EVENT_PORT_ACTIVE as u32;
pub(super) const PORT_ERR: u32 = c::ibv_event_type::IBV_EVENT_PORT_ERR as u32;
const QP_EVENTS: [u32; 4] = [
    c::ibv_event_type::IBV_EVENT_QP_FATAL as u32,
    c::ibv_event_type::IBV_EVENT_QP_REQ_ERR as u32,
    c::ibv_event_type::IBV_EVENT_QP_ACCESS_ERR as u32,
    COMM_EST,
];

/// What an event is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Qp(*mut c::ibv_qp),
    Cq(*mut c::ibv_cq),
    Port(u8),
    Other,
}

/// The next event of the device itself: its number, and what it is about.
pub(super) fn next_async_event(context: &Context) -> Option<(u32, Subject)> {
    let mut event = MaybeUninit::<c::ibv_async_event>::uninit();
    // SAFETY: an open context, and room for the answer.
    let ret = unsafe { c::ibv_get_async_event(context.verbs().as_ptr(), event.as_mut_ptr()) };
    if ret != 0 {
        return None;
    }
    // SAFETY: written by the call above.
    let told = unsafe { read(&event) };
    // SAFETY: taken above, acknowledged once. The queue pair or queue, if any, cannot
    // have been destroyed: this thread does that, and it waits for this call.
    unsafe { c::ibv_ack_async_event(event.as_mut_ptr()) };
    Some(told)
}

/// # Safety
/// It is an event as libibverbs writes it: what it is about goes with its number.
unsafe fn read(event: &MaybeUninit<c::ibv_async_event>) -> (u32, Subject) {
    let event = event.as_ptr();
    // Read as the number it is: a kernel may know events that the Rust enum does not.
    // SAFETY: inside the event.
    let kind = unsafe { std::ptr::addr_of!((*event).event_type) };
    // SAFETY: the caller's; the enum is of the size of a C int.
    let kind = unsafe { kind.cast::<u32>().read() };
    // SAFETY: inside the event.
    let element = unsafe { std::ptr::addr_of!((*event).element) };
    let subject = match kind {
        PORT_ACTIVE | PORT_ERR => {
            // SAFETY: such events name a port, as a C int.
            let port = unsafe { element.cast::<c_int>().read() };
            u8::try_from(port).map_or(Subject::Other, Subject::Port)
        }
        // SAFETY: such events name a completion queue.
        CQ_ERR => Subject::Cq(unsafe { element.cast::<*mut c::ibv_cq>().read() }),
        kind if QP_EVENTS.contains(&kind) => {
            // SAFETY: such events name a queue pair.
            Subject::Qp(unsafe { element.cast::<*mut c::ibv_qp>().read() })
        }
        _ => Subject::Other,
    };
    (kind, subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event with that number, about the thing at this address, or the port of this number.
    fn event(kind: u32, address: usize) -> MaybeUninit<c::ibv_async_event> {
        let mut event = MaybeUninit::<c::ibv_async_event>::zeroed();
        let at = event.as_mut_ptr();
        // SAFETY: inside the event.
        let number = unsafe { std::ptr::addr_of_mut!((*at).event_type) };
        // SAFETY: as large as a C int.
        unsafe { number.cast::<u32>().write(kind) };
        // SAFETY: inside the event.
        let element = unsafe { std::ptr::addr_of_mut!((*at).element) };
        match kind {
            // SAFETY: a union of pointers and an int.
            PORT_ERR => unsafe { element.cast::<c_int>().write(address as c_int) },
            // SAFETY: likewise.
            _ => unsafe { element.cast::<usize>().write(address) },
        }
        event
    }

    #[test]
    fn each_event_tells_what_it_is_about() {
        let about = |kind, address| {
            // SAFETY: as libibverbs writes it.
            let (number, subject) = unsafe { read(&event(kind, address)) };
            assert_eq!(number, kind);
            subject
        };
        assert_eq!(about(CQ_ERR, 0x1000), Subject::Cq(0x1000 as *mut _));
        assert_eq!(about(COMM_EST, 0x1000), Subject::Qp(0x1000 as *mut _));
        assert_eq!(about(PORT_ERR, 2), Subject::Port(2));
        assert_eq!(about(DEVICE_FATAL, 0), Subject::Other);
        assert_eq!(about(9999, 0x1000), Subject::Other);
    }
}
