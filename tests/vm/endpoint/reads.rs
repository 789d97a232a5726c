// SPDX-License-Identifier: MPL-2.0
//! READs while messages go both ways.

use zmq_rdma::device::{Event, Remote};

use crate::pair::{pattern, wait, Lab, Side};

const PIECES: usize = 8;
/// READs under way at once, as many as the stream has.
const AT_ONCE: usize = 4;

/// Takes in what both ends tell; adds up READs done and messages.
fn take(sides: [&mut Side; 2], done: &mut usize, got: &mut usize) {
    for side in sides {
        side.turn().expect("turn");
        while let Some(event) = side.events.pop_front() {
            match event {
                Event::ReadDone(token) => {
                    assert_eq!(token, *done as u64, "in order");
                    *done += 1;
                }
                Event::Received(_) => *got += 1,
                other => panic!("{other:?}"),
            }
        }
    }
}

/// What is told as READ is in place, though SENDs that were posted after it are complete before
/// (siw tells of those at once); sizes as of slots and of whole pages, and odd places.
pub fn read_among_sends(lab: &Lab) {
    let shapes = [(64 << 10, 0, 0), (256 << 10, 16, 3), (1 << 20, 4096, 17)];
    for ((piece, from_at, to_at), size) in shapes.into_iter().zip([36, 300, 5000]) {
        let (mut server, mut client) = lab.pair(8);
        let source = pattern(9, piece * PIECES + from_at);
        let mut sink = vec![0u8; piece * PIECES + to_at];
        let message = pattern(1, size);
        let (from, to) = (
            source.as_ptr().wrapping_add(from_at),
            sink.as_mut_ptr().wrapping_add(to_at),
        );
        // SAFETY: `source` outlives the endpoint's use of it.
        let remote = unsafe { server.endpoint.expose(from, piece * PIECES) }.expect("expose");
        let (mut posted, mut done, mut got) = (0, 0, 0);
        while done < PIECES {
            while posted < PIECES && posted - done < AT_ONCE {
                let from = Remote {
                    addr: remote.addr + (posted * piece) as u64,
                    len: piece as u32,
                    ..remote
                };
                let to = to.wrapping_add(posted * piece);
                // SAFETY: `sink` outlives the READs; nobody looks into it before they end.
                unsafe { client.endpoint.post_read(to, from, posted as u64) }.expect("READ");
                client.sent += u64::from(client.endpoint.flush().expect("flush"));
                posted += 1;
                client.send(&message);
                server.send(&message);
            }
            let before = (done, got);
            take([&mut client, &mut server], &mut done, &mut got);
            if before == (done, got) {
                wait(&[client.endpoint.ready(), server.endpoint.ready()]);
            }
        }
        assert!(sink[to_at..] == source[from_at..], "{piece}");
        while got < 2 * PIECES {
            wait(&[client.endpoint.ready(), server.endpoint.ready()]);
            take([&mut client, &mut server], &mut done, &mut got);
        }
    }
}
