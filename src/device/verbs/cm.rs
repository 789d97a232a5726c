// SPDX-License-Identifier: MPL-2.0
//! The RDMA CM: its event channel and its ids. Used on the control thread
//! alone (but for the short-lived id of `route`).

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::time::Duration;

use libc::{c_int, c_void};
use rdma_sys as c;

use super::addr::Raw;
use super::sys;
use crate::device::PRIVATE_DATA_MAX;
use crate::error::{Error, Result};
use crate::os::addr::from_raw;

/// Names a listener or connection in the CM's events; never reused.
pub(super) type Token = u64;

/// Retries without an acknowledgement; 7 would be endless on rxe.
const RETRY: u8 = 6;
/// Retries when the receiver was not ready; 7 would be endless.
const RNR_RETRY: u8 = 6;
/// 4.096 us << 16 a try: with the retries, some 2 s until a dead peer is noticed.
const ACK_TIMEOUT: u8 = 16;

// From rdma_cma.h, where they are macros and anonymous enums.
const LEVEL_ID: c_int = 0;
const OPTION_TOS: c_int = 0;
const OPTION_REUSEADDR: c_int = 1;
const OPTION_AFONLY: c_int = 2;
const OPTION_ACK_TIMEOUT: c_int = 3;
const RESPONDER_MOST: u8 = 0xff;
const INITIATOR_MOST: u8 = 0xff;

/// The event channel of the process.
pub(super) struct Channel(NonNull<c::rdma_event_channel>);

// SAFETY: librdmacm's channels are bound to no thread.
unsafe impl Send for Channel {}

impl Channel {
    pub(super) fn new() -> Result<Channel> {
        // SAFETY: no arguments.
        let channel = unsafe { c::rdma_create_event_channel() };
        let channel = NonNull::new(channel)
            .map(Channel)
            .ok_or_else(|| sys::last("rdma_create_event_channel"))?;
        sys::set_nonblocking(channel.fd())?;
        Ok(channel)
    }

    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: valid until drop.
        unsafe { self.0.as_ref() }.fd
    }

    /// The next event, copied out and acknowledged; `None`: none now.
    pub(super) fn next(&self) -> Option<CmEvent> {
        let mut event = std::ptr::null_mut();
        // SAFETY: a valid channel, and room for the answer.
        let ret = unsafe { c::rdma_get_cm_event(self.0.as_ptr(), &mut event) };
        if ret != 0 || event.is_null() {
            return None;
        }
        // SAFETY: valid until it is acknowledged, below.
        let copy = CmEvent::of(unsafe { &*event });
        // SAFETY: acknowledged once, and not used afterwards.
        unsafe { c::rdma_ack_cm_event(event) };
        Some(copy)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: created in `new`; the ids on it are destroyed before.
        unsafe { c::rdma_destroy_event_channel(self.0.as_ptr()) };
    }
}

/// An event of the CM.
pub(super) struct CmEvent {
    /// One of `rdma_cm_event_type`.
    pub(super) kind: c::rdma_cm_event_type::Type,
    /// 0, a negative errno, or a reject reason.
    pub(super) status: c_int,
    /// Whom it concerns (of a request: the listener).
    pub(super) token: Token,
    /// The device concerned, if any.
    pub(super) verbs: Option<NonNull<c::ibv_context>>,
    /// As it came: devices pad it.
    pub(super) private: Vec<u8>,
    /// Of a request: the new connection.
    pub(super) incoming: Option<Id>,
}

impl CmEvent {
    fn of(event: &c::rdma_cm_event) -> CmEvent {
        let is_request = event.event == c::rdma_cm_event_type::RDMA_CM_EVENT_CONNECT_REQUEST;
        let subject = if is_request {
            event.listen_id
        } else {
            event.id
        };
        // SAFETY: the ids in an event are valid until it is acknowledged.
        let subject = unsafe { &*subject };
        // SAFETY: an id of RDMA_PS_TCP has `conn`; librdmacm zeroes what it does not set.
        let conn = unsafe { event.param.conn };
        let private = if conn.private_data.is_null() {
            Vec::new()
        } else {
            let start = conn.private_data.cast::<u8>();
            // SAFETY: so many bytes inside the event.
            unsafe { std::slice::from_raw_parts(start, conn.private_data_len.into()) }.to_vec()
        };
        CmEvent {
            kind: event.event,
            status: event.status,
            token: subject.context as Token,
            verbs: NonNull::new(subject.verbs),
            private,
            incoming: is_request.then(|| NonNull::new(event.id).map(Id)).flatten(),
        }
    }
}

/// An id: a listener, or one end of a connection, together with the queue pair
/// created on it.
pub(super) struct Id(NonNull<c::rdma_cm_id>);

// SAFETY: librdmacm's ids are bound to no thread.
unsafe impl Send for Id {}

impl Id {
    /// A new id whose events carry `token`.
    pub(super) fn new(channel: &Channel, token: Token) -> Result<Id> {
        Id::create(channel.0.as_ptr(), token)
    }

    /// An id without events, whose calls wait for their result.
    pub(super) fn without_events() -> Result<Id> {
        Id::create(std::ptr::null_mut(), 0)
    }

    fn create(channel: *mut c::rdma_event_channel, token: Token) -> Result<Id> {
        let mut id = std::ptr::null_mut();
        let space = c::rdma_port_space::RDMA_PS_TCP;
        // SAFETY: a valid channel or null, room for the answer; the context is a number to librdmacm.
        let ret = unsafe { c::rdma_create_id(channel, &mut id, token as *mut c_void, space) };
        sys::checked("rdma_create_id", ret)?;
        let id = NonNull::new(id).ok_or(Error::Misuse("rdma_create_id gave nothing"))?;
        Ok(Id(id))
    }

    fn get(&self) -> &c::rdma_cm_id {
        // SAFETY: valid until drop; librdmacm changes it only inside calls, none of which runs now.
        unsafe { self.0.as_ref() }
    }

    /// Name it anew (an incoming one carries its listener's token).
    pub(super) fn set_token(&mut self, token: Token) {
        // SAFETY: valid until drop, and borrowed mutably.
        unsafe { self.0.as_mut() }.context = token as *mut c_void;
    }

    pub(super) fn verbs(&self) -> Option<NonNull<c::ibv_context>> {
        NonNull::new(self.get().verbs)
    }

    pub(super) fn pd(&self) -> Option<NonNull<c::ibv_pd>> {
        NonNull::new(self.get().pd)
    }

    pub(super) fn qp(&self) -> *mut c::ibv_qp {
        self.get().qp
    }

    /// Whether its queue pair's completions go to that queue.
    pub(super) fn completes_to(&self, cq: *mut c::ibv_cq) -> bool {
        // SAFETY: the queue pair lives as long as its id.
        let qp = unsafe { self.qp().as_ref() };
        qp.is_some_and(|qp| qp.send_cq == cq || qp.recv_cq == cq)
    }

    pub(super) fn local_addr(&self) -> Option<SocketAddr> {
        // SAFETY: the storage is the largest member of the union, and librdmacm zeroes it.
        from_raw(unsafe { &self.get().route.addr.src_addr_union.src_storage })
    }

    pub(super) fn peer_addr(&self) -> Option<SocketAddr> {
        // SAFETY: as in `local_addr`.
        from_raw(unsafe { &self.get().route.addr.dst_addr_union.dst_storage })
    }

    /// Our GID, once an address is resolved.
    pub(super) fn gid(&self) -> [u8; 16] {
        // SAFETY: librdmacm zeroes what it does not set.
        let pair = unsafe { self.get().route.addr.addr.ibaddr };
        // SAFETY: any bytes are a GID.
        unsafe { pair.sgid.raw }
    }

    /// Port of the device, once an address is resolved.
    pub(super) fn port(&self) -> u8 {
        self.get().port_num
    }

    pub(super) fn set_tos(&self, tos: u8) {
        self.set(OPTION_TOS, tos);
    }

    /// Notice a dead peer within some two seconds (RoCE, InfiniBand).
    pub(super) fn set_ack_timeout(&self) {
        self.set(OPTION_ACK_TIMEOUT, ACK_TIMEOUT);
    }

    /// To be bound again at once after a restart.
    pub(super) fn set_reuse(&self) {
        self.set(OPTION_REUSEADDR, 1i32);
    }

    pub(super) fn set_ipv6_only(&self, only: bool) {
        self.set(OPTION_AFONLY, i32::from(only));
    }

    // A device without the option goes on with its default.
    fn set<T>(&self, option: c_int, mut value: T) {
        let start = std::ptr::addr_of_mut!(value).cast();
        // SAFETY: a valid id; the value is valid for the call, and of the size told.
        unsafe { c::rdma_set_option(self.0.as_ptr(), LEVEL_ID, option, start, size_of::<T>()) };
    }

    pub(super) fn bind(&self, to: SocketAddr) -> Result<()> {
        let mut raw = Raw::new(to);
        // SAFETY: a valid id and address.
        let ret = unsafe { c::rdma_bind_addr(self.0.as_ptr(), raw.as_mut_ptr()) };
        sys::checked("rdma_bind_addr", ret)
    }

    pub(super) fn listen(&self, backlog: c_int) -> Result<()> {
        // SAFETY: a valid id.
        let ret = unsafe { c::rdma_listen(self.0.as_ptr(), backlog) };
        sys::checked("rdma_listen", ret)
    }

    pub(super) fn resolve_addr(
        &self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        patience: Duration,
    ) -> Result<()> {
        let mut from = from.map(Raw::new);
        let source = from.as_mut().map_or(std::ptr::null_mut(), Raw::as_mut_ptr);
        let mut to = Raw::new(to);
        let ms = patience.as_millis() as c_int;
        // SAFETY: a valid id and addresses; the source may be null.
        let ret = unsafe { c::rdma_resolve_addr(self.0.as_ptr(), source, to.as_mut_ptr(), ms) };
        sys::checked("rdma_resolve_addr", ret)
    }

    pub(super) fn resolve_route(&self, patience: Duration) -> Result<()> {
        let ms = patience.as_millis() as c_int;
        // SAFETY: a valid id.
        let ret = unsafe { c::rdma_resolve_route(self.0.as_ptr(), ms) };
        sys::checked("rdma_resolve_route", ret)
    }

    /// Create its queue pair on the device's own protection domain.
    pub(super) fn create_qp(&self, attr: &mut c::ibv_qp_init_attr) -> Result<NonNull<c::ibv_qp>> {
        // SAFETY: a valid id and attributes; a null PD stands for the id's own.
        let ret = unsafe { c::rdma_create_qp(self.0.as_ptr(), std::ptr::null_mut(), attr) };
        sys::checked("rdma_create_qp", ret)?;
        NonNull::new(self.qp()).ok_or(Error::Misuse("rdma_create_qp gave nothing"))
    }

    /// Ask the peer; the reads are how many may be under way each way.
    pub(super) fn connect(&self, private: &[u8], reads_in: u8, reads_out: u8) -> Result<()> {
        let mut param = params(private, reads_in, reads_out);
        // SAFETY: a valid id; the parameters are valid for the call.
        let ret = unsafe { c::rdma_connect(self.0.as_ptr(), &mut param) };
        sys::checked("rdma_connect", ret)
    }

    /// Say yes; the reads become what both sides can.
    pub(super) fn accept(&self, private: &[u8]) -> Result<()> {
        let mut param = params(private, RESPONDER_MOST, INITIATOR_MOST);
        // SAFETY: a valid id; the parameters are valid for the call.
        let ret = unsafe { c::rdma_accept(self.0.as_ptr(), &mut param) };
        sys::checked("rdma_accept", ret)
    }

    /// Say no.
    pub(super) fn reject(&self, private: &[u8]) -> Result<()> {
        let len = private.len().min(PRIVATE_DATA_MAX);
        // SAFETY: a valid id; so many bytes are valid for the call.
        let ret = unsafe { c::rdma_reject(self.0.as_ptr(), private.as_ptr().cast(), len as u8) };
        sys::checked("rdma_reject", ret)
    }

    /// Part in good order, or answer a peer that did. Moves the queue pair to its error state.
    pub(super) fn disconnect(&self) -> Result<()> {
        // SAFETY: a valid id.
        let ret = unsafe { c::rdma_disconnect(self.0.as_ptr()) };
        sys::checked("rdma_disconnect", ret)
    }

    /// Tell the CM that data came although the peer's last handshake message did not.
    pub(super) fn notify_established(&self) {
        // SAFETY: a valid id. It fails when the CM knows already.
        unsafe { c::rdma_notify(self.0.as_ptr(), c::ibv_event_type::IBV_EVENT_COMM_EST) };
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        if !self.qp().is_null() {
            // SAFETY: the queue pair is this id's, and nobody posts to it any more.
            unsafe { c::rdma_destroy_qp(self.0.as_ptr()) };
        }
        // SAFETY: created by librdmacm, destroyed only here; all its events are acknowledged.
        unsafe { c::rdma_destroy_id(self.0.as_ptr()) };
    }
}

/// Have librdmacm look which devices are gone, so that it closes their
/// contexts with their last ids. Where no device is left at all it fails to.
pub(super) fn forget_removed_devices() -> bool {
    // SAFETY: the count may be null; the list is freed below.
    let list = unsafe { c::rdma_get_devices(std::ptr::null_mut()) };
    if list.is_null() {
        return false;
    }
    // SAFETY: made above, freed once.
    unsafe { c::rdma_free_devices(list) };
    true
}

fn params(private: &[u8], reads_in: u8, reads_out: u8) -> c::rdma_conn_param {
    c::rdma_conn_param {
        private_data: private.as_ptr().cast(),
        private_data_len: private.len().min(PRIVATE_DATA_MAX) as u8,
        responder_resources: reads_in,
        initiator_depth: reads_out,
        flow_control: 1,
        retry_count: RETRY,
        rnr_retry_count: RNR_RETRY,
        srq: 0,
        qp_num: 0,
    }
}
