// SPDX-License-Identifier: MPL-2.0
//! Ends that are looked at again and again instead of slept on.

use zmq_rdma::device::{verbs, Event};
use zmq_rdma::error::{Error, Result};

use crate::pair::{pattern, readable, Lab, Side};

/// Looks at one end once; whether there was anything.
fn look(side: &mut Side, told: bool) -> Result<bool> {
    let mut events = Vec::new();
    side.endpoint.look(told, &mut events)?;
    let any = !events.is_empty();
    for event in events {
        match event {
            Event::Sent(n) => side.sent += u64::from(n),
            event => side.events.push_back(event),
        }
    }
    Ok(any)
}

/// Looks until a message is there.
fn found(side: &mut Side) -> Vec<u8> {
    while side.events.is_empty() {
        look(side, false).expect("look");
    }
    side.receive().bytes().to_vec()
}

fn pass(from: &mut Side, to: &mut Side, round: u64, sleeps: bool) {
    let bytes = pattern(round, 64);
    from.send(&bytes);
    let came = match sleeps {
        true => to.receive().bytes().to_vec(),
        false => found(to),
    };
    assert!(came == bytes, "round {round}");
    assert_eq!(to.endpoint.post_recvs(1), Ok(1));
}

fn there_and_back(server: &mut Side, client: &mut Side, round: u64, sleeps: bool) {
    pass(client, server, round, sleeps);
    pass(server, client, round, sleeps);
}

/// Who looks needs no events; who sleeps after having looked is woken all the same;
/// and who looks finds room, and the end.
pub fn looked_at(lab: &Lab) {
    lab.verbs_only();
    let mut lab = lab.clone();
    lab.options.send_depth = 8;
    let (mut server, mut client) = lab.pair(lab.options.recv_depth);
    for round in 0..3000 {
        // Asleep for ever, if it is not woken: the lab ends that.
        there_and_back(&mut server, &mut client, round, round % 3 == 0);
    }

    // The events that were asked for before.
    for side in [&mut server, &mut client] {
        while readable(side.endpoint.ready().fd) {
            look(side, true).expect("look");
        }
    }
    let (before, _) = verbs::books::events();
    for round in 0..1000 {
        there_and_back(&mut server, &mut client, round, false);
    }
    let (after, _) = verbs::books::events();
    // The last that had been asked for may come meanwhile, one of each queue.
    assert!(after - before <= 4, "{} events", after - before);

    for round in 0..2000u64 {
        let mut slot = loop {
            match client.endpoint.reserve().expect("reserve") {
                Some(slot) => break slot,
                None => {
                    look(&mut client, false).expect("look");
                }
            }
        };
        let bytes = pattern(round, 500);
        slot.write(0, &bytes);
        client.endpoint.post_send(slot, 500).expect("send");
        if round % 5 == 4 {
            client.sent += u64::from(client.endpoint.flush().expect("flush"));
            for old in round - 4..=round {
                assert!(found(&mut server) == pattern(old, 500), "{old}");
                assert_eq!(server.endpoint.post_recvs(1), Ok(1));
            }
        }
    }

    drop(server);
    let end = loop {
        let told = readable(client.endpoint.ready().fd);
        let looked = look(&mut client, told);
        match (client.events.pop_front(), looked) {
            (Some(Event::Disconnected), _) => break None,
            (Some(other), _) => panic!("{other:?}"),
            (None, Err(why)) => break Some(why),
            (None, Ok(_)) => {}
        }
    };
    assert!(
        matches!(end, None | Some(Error::Reset(_) | Error::Closed)),
        "{end:?}"
    );
}
