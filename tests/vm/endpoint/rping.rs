// SPDX-License-Identifier: MPL-2.0
//! What rdma-core's rping says, said by the soft device: each ping is told by
//! SEND (address, key and length of memory), fetched by READ, echoed by WRITE.
//! The other side is rping itself, over the kernel's siw.
//!
//!     EP_ADDR=10.78.0.1 vm_endpoint rping_client PINGS BYTES     against rping -s
//!     EP_ADDR=10.78.0.1 vm_endpoint rping_server PINGS           against rping -c

use std::net::SocketAddr;
use std::time::Duration;

use zmq_rdma::device::soft::{self, Endpoint};
use zmq_rdma::device::{Endpoint as _, Event, Listener as _, Remote};
use zmq_rdma::error::{Error, Result};

use crate::pair::{pattern, wait, wait_for, Lab};

/// rping's own.
const PORT: u16 = 7174;

/// One end of it.
struct Rping {
    endpoint: Endpoint,
    events: Vec<Event>,
    closed: bool,
}

impl Rping {
    fn new(endpoint: Endpoint) -> Rping {
        Rping {
            endpoint,
            events: Vec::new(),
            closed: false,
        }
    }

    /// Until there is an event; `None`: the peer has gone.
    fn next(&mut self) -> Option<Event> {
        loop {
            let news = self
                .events
                .iter()
                .position(|e| !matches!(e, Event::Sent(_)));
            match news.map(|at| self.events.remove(at)) {
                Some(Event::Disconnected) => self.closed = true,
                Some(event) => return Some(event),
                None if self.closed => return None,
                None => self.turn(),
            }
        }
    }

    fn turn(&mut self) {
        wait(&[self.endpoint.ready()]);
        match self.endpoint.poll(&mut self.events) {
            // siw resets the connection that its user closes.
            Err(why @ (Error::Reset(_) | Error::Closed)) => {
                println!("{why}");
                self.closed = true;
            }
            polled => polled.expect("poll"),
        }
    }

    /// Whether the peer has said something within a second.
    fn hears_soon(&mut self) -> bool {
        while !self.closed && self.events.iter().all(|e| matches!(e, Event::Sent(_))) {
            if !wait_for(&[self.endpoint.ready()], Duration::from_secs(1)) {
                return false;
            }
            self.turn();
        }
        true
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut slot = self.endpoint.reserve()?.expect("a free slot");
        slot.write(0, bytes);
        self.endpoint.post_send(slot, bytes.len())?;
        self.endpoint.flush().map(drop)
    }

    /// The next message, whose receive is posted again.
    fn hear(&mut self) -> Option<Vec<u8>> {
        match self.next()? {
            Event::Received(filled) => {
                let bytes = filled.bytes().to_vec();
                drop(filled);
                assert_eq!(self.endpoint.post_recvs(1), Ok(1));
                Some(bytes)
            }
            other => panic!("{other:?} instead of a message"),
        }
    }
}

fn told(memory: &Remote) -> Vec<u8> {
    let mut bytes = memory.addr.to_be_bytes().to_vec();
    bytes.extend_from_slice(&memory.key.to_be_bytes());
    bytes.extend_from_slice(&memory.len.to_be_bytes());
    bytes
}

fn meant(bytes: &[u8]) -> Remote {
    assert_eq!(bytes.len(), 16, "rping's messages have 16 bytes");
    Remote {
        addr: u64::from_be_bytes(bytes[..8].try_into().unwrap()),
        key: u32::from_be_bytes(bytes[8..12].try_into().unwrap()),
        len: u32::from_be_bytes(bytes[12..].try_into().unwrap()),
    }
}

/// A ping's text: its number, and letters up to one NUL at the end.
fn text(ping: u64, len: usize) -> Vec<u8> {
    let mut text = format!("rdma-ping-{ping}: ").into_bytes();
    text.extend(pattern(ping + 1, len).iter().map(|byte| b'A' + byte % 26));
    text.truncate(len);
    text[len - 1] = 0;
    text
}

/// The client's side.
pub fn client(lab: &Lab, args: &[String]) {
    let (pings, len) = (args[0].parse().unwrap(), args[1].parse().unwrap());
    let to = SocketAddr::new(lab.addr.ip(), PORT);
    let mut rping = Rping::new(Endpoint::dial(to, None, b"", &lab.options).expect("dial"));
    assert_eq!(rping.endpoint.post_recvs(4), Ok(4));
    match rping.next() {
        Some(Event::Established(private)) => println!("established, private data {private:?}"),
        other => panic!("{other:?} instead of an answer"),
    }
    for ping in 0..pings {
        let start = text(ping, len);
        // SAFETY: unwritten until hidden.
        let source = unsafe { rping.endpoint.expose(start.as_ptr(), len) }.expect("expose");
        rping.send(&told(&source)).expect("send");
        // The kernel may leave the first message after its answer lying until more comes.
        if ping == 0 && !rping.hears_soon() {
            nudge(&mut rping.endpoint);
        }
        rping.hear().expect("go on, says the server: it has read");
        rping.endpoint.hide(source.key).expect("hide");

        let mut sink = vec![0u8; len];
        // SAFETY: left alone until hidden.
        let target = unsafe { rping.endpoint.expose_to_write(sink.as_mut_ptr(), len) };
        let target = target.expect("expose");
        rping.send(&told(&target)).expect("send");
        rping
            .hear()
            .expect("go on, says the server: it has written");
        rping.endpoint.hide(target.key).expect("hide");
        assert!(sink == start, "ping {ping} differs");
    }
    rping.endpoint.disconnect().expect("disconnect");
    println!("lab: {pings} pings of {len} B to rping, by READ and WRITE");
}

/// An empty WRITE: uses up no receive, touches no memory.
fn nudge(endpoint: &mut Endpoint) {
    println!("lab: the first message lay unseen");
    let nowhere = Remote {
        key: 0,
        addr: 0,
        len: 0,
    };
    // SAFETY: no bytes.
    unsafe { endpoint.post_write(std::ptr::NonNull::dangling().as_ptr(), nowhere) }.expect("write");
    endpoint.flush().expect("flush");
}

/// The server's side.
pub fn server(lab: &Lab, args: &[String]) {
    let pings: u64 = args[0].parse().unwrap();
    let at = SocketAddr::new(lab.addr.ip(), PORT);
    let mut listener = soft::Listener::new(at, &lab.options).expect("listen");
    println!("listening");
    wait(&[listener.ready()]);
    let mut rping = Rping::new(listener.accept_endpoint().expect("accept"));
    match rping.next() {
        Some(Event::Request(private)) => println!("asked, private data {private:?}"),
        other => panic!("{other:?} instead of a request"),
    }
    assert_eq!(rping.endpoint.post_recvs(8), Ok(8));
    rping.endpoint.accept(b"").expect("accept");
    assert!(matches!(rping.next(), Some(Event::Established(_))));
    // A WRITE's bytes stay until it is reported.
    let mut buffers = Vec::new();
    let mut seen = 0;
    while let Some(bytes) = rping.hear() {
        let from = meant(&bytes);
        let mut buffer = vec![0u8; from.len as usize];
        // SAFETY: left alone until the READ is done.
        unsafe { rping.endpoint.post_read(buffer.as_mut_ptr(), from, seen) }.expect("read");
        rping.endpoint.flush().expect("flush");
        assert!(matches!(rping.next(), Some(Event::ReadDone(token)) if token == seen));
        assert!(buffer.starts_with(format!("rdma-ping-{seen}: ").as_bytes()));
        rping.send(&[0; 16]).expect("send");
        let to = meant(&rping.hear().expect("where to write"));
        let len = buffer.iter().position(|&byte| byte == 0).unwrap() + 1;
        let to = Remote {
            len: len as u32,
            ..to
        };
        // SAFETY: unwritten, and kept to the end.
        unsafe { rping.endpoint.post_write(buffer.as_ptr(), to) }.expect("write");
        rping.send(&[0; 16]).expect("send");
        seen += 1;
        buffers.push(buffer);
    }
    assert_eq!(seen, pings);
    println!("lab: {seen} pings of rping, by READ and WRITE");
}
