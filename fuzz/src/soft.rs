// SPDX-License-Identifier: MPL-2.0
//! The soft device whole, over loopback: the peer is the input. It knows the
//! tags that were granted to it, so that it can misuse them.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use zmq_rdma::device::soft::{Endpoint, Listener};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Options, Remote};
use zmq_rdma::error::Error;
use zmq_rdma::os;
use zmq_rdma::proto::mpa::framing::{Deframer, Framer, Parsed};
use zmq_rdma::wire::ddp::{Header, Tagged, Untagged};
use zmq_rdma::wire::mpa::{Enhanced, Kind, Revision, Setup, LENGTH_LEN};
use zmq_rdma::wire::rdmap::{Opcode, ReadRequest, SendKind, QN_READ, QN_SEND, QN_TERMINATE};

use crate::input::{pattern, Input};
use crate::meter::bounded;

/// Memory that one connection may take: a chunk or two, and what is under way.
const BOUND: usize = 8 << 20;
/// Bytes shown to the peer, to be READ and to be WRITTEN.
const SHOWN: usize = 4096;
const GUARD: usize = 64;
const UNTOUCHED: u8 = 0xa5;

fn options() -> Options {
    Options {
        crc: false,
        recv_depth: 8,
        ..Options::default()
    }
}

struct Door {
    listener: Mutex<Listener>,
    addr: SocketAddr,
}

fn door() -> &'static Door {
    static DOOR: OnceLock<Door> = OnceLock::new();
    DOOR.get_or_init(|| {
        let any = ([127, 0, 0, 1], 0).into();
        let listener = Listener::new(any, &options()).expect("loopback");
        let addr = listener.local_addr();
        Door {
            listener: Mutex::new(listener),
            addr,
        }
    })
}

/// A stranger's connection. It ends with a reset, so that no port stays taken.
fn connect() -> (TcpStream, Endpoint) {
    let door = door();
    let raw = TcpStream::connect(door.addr).expect("loopback");
    raw.set_nodelay(true).expect("a socket");
    raw.set_nonblocking(true).expect("a socket");
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: a socket that is open, and a value of the size that is told.
    unsafe {
        libc::setsockopt(
            raw.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        );
    }
    let mut listener = door.listener.lock().expect("no panic has been survived");
    os::wait_readable(listener.ready().fd);
    let endpoint = listener.accept_endpoint().expect("the connection");
    (raw, endpoint)
}

/// Memory of ours between guards.
struct Guarded(Vec<u8>);

impl Guarded {
    fn new() -> Guarded {
        Guarded(vec![UNTOUCHED; GUARD + SHOWN + GUARD])
    }

    fn start(&mut self) -> *mut u8 {
        self.0[GUARD..].as_mut_ptr()
    }

    fn check(&self) {
        let guards = self.0[..GUARD].iter().chain(&self.0[GUARD + SHOWN..]);
        assert!(
            guards.into_iter().all(|byte| *byte == UNTOUCHED),
            "past its end"
        );
    }
}

/// A peer that says what the input says.
pub fn peer(data: &[u8]) {
    bounded(BOUND, || {
        let mut input = Input::new(data);
        let source = pattern(9, SHOWN);
        let (mut target, mut sink) = (Guarded::new(), Guarded::new());
        let (raw, endpoint) = connect();
        let mut link = Link::new(raw, endpoint);
        if link.shake_hands(&mut input) {
            // SAFETY: all three outlive the endpoint, and are touched by it alone meanwhile.
            unsafe { link.show(&source, target.start(), sink.start()) };
            for _ in 0..100 {
                if input.ended() || !link.turn(&mut input) {
                    break;
                }
            }
        }
        link.finish();
        drop(link);
        target.check();
        sink.check();
        assert_eq!(source, pattern(9, SHOWN));
    });
}

struct Link {
    raw: TcpStream,
    endpoint: Endpoint,
    framer: Framer,
    deframer: Deframer,
    error: Option<Error>,
    /// Bytes that the endpoint sent and that are not parsed.
    said: Vec<u8>,
    /// READs that it asked.
    asked: VecDeque<ReadRequest>,
    /// SENDs to it that were well said.
    sends: VecDeque<Vec<u8>>,
    /// What it says is well framed, and its SENDs are to be heard.
    honest: bool,
    /// The request was.
    asked_well: bool,
    granted: Vec<Remote>,
    msn: [u32; 3],
    reads: u64,
}

impl Link {
    fn new(raw: TcpStream, endpoint: Endpoint) -> Link {
        Link {
            raw,
            endpoint,
            framer: Framer::new(false, false),
            deframer: Deframer::new(false),
            error: None,
            said: Vec::new(),
            asked: VecDeque::new(),
            sends: VecDeque::new(),
            honest: true,
            asked_well: true,
            granted: Vec::new(),
            msn: [1; 3],
            reads: 0,
        }
    }

    /// Whether the connection stands.
    fn shake_hands(&mut self, input: &mut Input<'_>) -> bool {
        let depth = |input: &mut Input<'_>| u16::from(input.u8() % 20);
        let enhanced = Enhanced {
            peer_to_peer: input.one_in(4),
            rtr_send: input.bool(),
            rtr_write: input.bool(),
            rtr_read: input.bool(),
            ird: depth(input),
            ord: depth(input),
        };
        let revision = if input.one_in(4) {
            Revision::One
        } else {
            Revision::Two
        };
        let setup = Setup {
            kind: Kind::Request,
            markers: false,
            crc: input.bool(),
            reject: false,
            revision,
            enhanced: (revision == Revision::Two && !input.one_in(4)).then_some(enhanced),
            private: input.bytes(20),
        };
        self.framer = Framer::new(setup.crc, false);
        self.deframer = Deframer::new(setup.crc);
        let mut request = Vec::new();
        setup.encode(&mut request);
        while input.one_in(32) {
            let at = input.within(0, request.len() - 1);
            request[at] ^= input.u8();
            self.asked_well = false;
        }
        // A first message that is empty may be an indication, which nobody hears of.
        self.honest = self.asked_well && !enhanced.peer_to_peer;
        self.write(&request);
        let asked = self
            .poll()
            .iter()
            .any(|event| matches!(event, Event::Request(_)));
        if !asked {
            return false;
        }
        self.post_recvs(4);
        if input.one_in(32) {
            self.endpoint.reject(b"no").ok();
            return false;
        }
        if let Err(why) = self.endpoint.accept(b"yes") {
            self.error = Some(why);
            return false;
        }
        true
    }

    /// # Safety
    /// The memory outlives the endpoint, which alone touches it.
    unsafe fn show(&mut self, source: &[u8], target: *mut u8, sink: *mut u8) {
        // SAFETY: as demanded.
        let source = unsafe { self.endpoint.expose(source.as_ptr(), SHOWN) };
        // SAFETY: as demanded.
        let target = unsafe { self.endpoint.expose_to_write(target, SHOWN) };
        self.granted.extend(source.into_iter().chain(target));
        let from = Remote {
            key: 77,
            addr: 1 << 40,
            len: SHOWN as u32,
        };
        // SAFETY: as demanded.
        let read = unsafe { self.endpoint.post_read(sink, from, 5) };
        self.reads = read.is_ok().into();
    }

    fn post_recvs(&mut self, n: u16) {
        match self.endpoint.post_recvs(n) {
            Ok(posted) => assert!(posted <= n),
            Err(why) => self.error = Some(why),
        }
    }

    /// One thing said or done; whether it lives.
    fn turn(&mut self, input: &mut Input<'_>) -> bool {
        match input.u8() % 16 {
            0 => self.post_recvs(1 + u16::from(input.u8() % 8)),
            1 => self.answer_send(input),
            2 => {
                if let Err(why) = self.endpoint.probe(Instant::now()) {
                    self.error = Some(why);
                }
            }
            3 if input.one_in(8) && !self.granted.is_empty() => {
                let at = input.within(0, self.granted.len() - 1);
                let hidden = self.endpoint.hide(self.granted[at].key);
                assert!(matches!(
                    hidden,
                    Ok(()) | Err(Error::Again | Error::Misuse(_))
                ));
            }
            4 => {
                self.honest = false;
                self.write(input.bytes(40));
            }
            _ => self.say(input),
        }
        self.poll();
        self.error.is_none()
    }

    fn answer_send(&mut self, input: &mut Input<'_>) {
        if let Ok(Some(mut slot)) = self.endpoint.reserve() {
            let len = input.u16() as usize % slot.capacity();
            slot.write(0, &pattern(2, len));
            if let Err(why) = self.endpoint.post_send(slot, len) {
                assert!(matches!(why, Error::Misuse(_)));
            }
        }
    }

    /// A segment that may be right in every part.
    fn say(&mut self, input: &mut Input<'_>) {
        let (header, payload) = match input.within(0, 4) {
            0 | 1 => self.send(input),
            2 => self.write_or_response(input),
            3 => self.read_request(input),
            _ => {
                let header = self.untagged(Opcode::Terminate, QN_TERMINATE);
                (header, input.bytes(30).to_vec())
            }
        };
        let mut fpdu = Vec::new();
        self.framer.copy(&header, &payload, &mut fpdu);
        while input.one_in(32) {
            let at = input.within(0, 22.min(fpdu.len() - 1));
            fpdu[at] ^= input.u8();
            self.honest = false;
        }
        let cut = if input.one_in(4) {
            input.within(0, fpdu.len())
        } else {
            0
        };
        self.write(&fpdu[..cut]);
        if cut > 0 {
            self.poll();
        }
        self.write(&fpdu[cut..]);
    }

    fn untagged(&mut self, opcode: Opcode, qn: u32) -> Header {
        let msn = self.msn[qn as usize];
        self.msn[qn as usize] += 1;
        Header::Untagged(Untagged {
            last: true,
            ulp: opcode.control(),
            ulp_word: 0,
            qn,
            msn,
            mo: 0,
        })
    }

    fn send(&mut self, input: &mut Input<'_>) -> (Header, Vec<u8>) {
        let len = input.u16() as usize % 9000;
        let payload = pattern(self.msn[0].into(), len);
        let invalidates = input.one_in(16);
        let kind = if invalidates {
            SendKind::Invalidate
        } else {
            SendKind::Plain
        };
        let mut header = self.untagged(Opcode::Send(kind), QN_SEND);
        if let (true, Header::Untagged(header)) = (invalidates, &mut header) {
            header.ulp_word = self.tag(input);
            self.honest = false;
        }
        self.sends.push_back(payload.clone());
        (header, payload)
    }

    fn tag(&self, input: &mut Input<'_>) -> u32 {
        match self.granted.get(input.within(0, 2)) {
            Some(remote) => remote.key,
            None => input.u32(),
        }
    }

    fn write_or_response(&mut self, input: &mut Input<'_>) -> (Header, Vec<u8>) {
        let len = input.u16() as usize % 6000;
        if input.bool() {
            let read = self.asked.pop_front();
            let read = read.map_or((input.u32(), input.u64()), |r| (r.sink_stag, r.sink_to));
            let header = Tagged {
                last: input.bool(),
                ulp: Opcode::ReadResponse.control(),
                stag: read.0,
                to: read.1,
            };
            return (Header::Tagged(header), pattern(3, len));
        }
        let header = Tagged {
            last: !input.one_in(4),
            ulp: Opcode::Write.control(),
            stag: self.tag(input),
            to: if input.one_in(16) {
                input.u64()
            } else {
                input.u16().into()
            },
        };
        (Header::Tagged(header), pattern(4, len))
    }

    fn read_request(&mut self, input: &mut Input<'_>) -> (Header, Vec<u8>) {
        let request = ReadRequest {
            sink_stag: input.u32(),
            sink_to: input.u64(),
            len: if input.one_in(16) {
                input.u32()
            } else {
                input.u16().into()
            },
            source_stag: self.tag(input),
            source_to: if input.one_in(16) {
                input.u64()
            } else {
                input.u8().into()
            },
        };
        let header = self.untagged(Opcode::ReadRequest, QN_READ);
        (header, request.encode().to_vec())
    }

    fn write(&mut self, bytes: &[u8]) {
        match (&self.raw).write(bytes) {
            Ok(n) if n == bytes.len() => {}
            // It takes no more, or is gone: the rest would be out of step.
            _ => self.honest = false,
        }
    }

    /// Turn the crank, and hear what it says to the wire.
    fn poll(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let polled = self.endpoint.poll(&mut events);
        let mut received = 0;
        for event in &events {
            match event {
                Event::Received(filled) => {
                    received += 1;
                    let said = self.sends.pop_front();
                    assert!(!self.honest || said.as_deref() == Some(filled.bytes()));
                }
                Event::ReadDone(token) => {
                    assert_eq!(*token, 5);
                    self.reads = self.reads.checked_sub(1).expect("one READ, one end");
                }
                Event::Disconnected => self.error = Some(Error::Closed),
                _ => {}
            }
        }
        assert!(received <= 8, "more SENDs than receives");
        if let Err(why) = polled {
            if why != Error::Again {
                self.error = Some(why);
            }
        }
        self.endpoint.flush().ok();
        self.listen();
        events
    }

    fn listen(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match (&self.raw).read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => self.said.extend_from_slice(&bytes[..n]),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.understand();
    }

    /// What it says is well said, always: the reply, then FPDUs.
    fn understand(&mut self) {
        use zmq_rdma::wire::mpa::Decoded;
        if self.said.starts_with(b"MPA ID Rep") {
            match Setup::decode(Kind::Reply, &self.said) {
                Ok(Decoded::Value(_, used)) => drop(self.said.drain(..used)),
                Ok(Decoded::Need(_)) => return,
                Err(fault) => panic!("{fault:?} in our reply"),
            }
        }
        loop {
            let (used, ulpdu) = match self.deframer.parse(&self.said) {
                Ok(Parsed::Fpdu { consumed, ulpdu }) => (consumed, ulpdu.to_vec()),
                Ok(Parsed::Need(need)) => {
                    assert!(need >= LENGTH_LEN);
                    return;
                }
                // The flags of the request may have been spoilt on the way.
                Err(fault) => {
                    assert!(!self.asked_well, "{fault:?} in what we sent");
                    self.said.clear();
                    return;
                }
            };
            self.said.drain(..used);
            let Ok(header) = Header::decode(&ulpdu) else {
                assert!(!self.asked_well);
                return;
            };
            if Opcode::of(&header) == Ok(Opcode::ReadRequest) {
                self.asked
                    .extend(ReadRequest::decode(&ulpdu[header.len()..]));
            }
        }
    }

    /// One that is dead stays dead, and says so.
    fn finish(&mut self) {
        self.poll();
        if self.error.is_none() {
            return self.endpoint.abort();
        }
        let mut events = Vec::new();
        // What came before the end may be told first; then nothing, for good.
        let again = self.endpoint.poll(&mut events);
        let last = self.endpoint.poll(&mut events);
        assert!(again.is_err() || last.is_err(), "alive again");
        let told = events.len();
        assert!(self.endpoint.poll(&mut events).is_err() && events.len() == told);
        assert!(self.endpoint.post_recvs(1).is_err() && self.endpoint.flush().is_err());
    }
}
