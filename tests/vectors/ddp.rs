// SPDX-License-Identifier: MPL-2.0
//! DDP: cutting messages, and placing segments.

use proptest::prelude::*;
use zmq_rdma::proto::ddp::place::{tagged, Placement, Queue};
use zmq_rdma::proto::ddp::segment::Segments;
use zmq_rdma::wire::ddp::{Access, Breach, Header, Tagged, Untagged, Window};
use zmq_rdma::wire::fault::Cause;

use crate::fpdu;

fn untagged(msn: u32, mo: u32, last: bool) -> Untagged {
    match fpdu::send(msn, mo, last) {
        Header::Untagged(header) => header,
        Header::Tagged(_) => unreachable!(),
    }
}

#[test]
fn headers_of_another_version_are_refused() {
    let ulpdu = |control: u8| [&[control][..], &[0x43; 20]].concat();
    for (control, cause) in [
        (0xc0, Cause::TAGGED_VERSION),
        (0xc2, Cause::TAGGED_VERSION),
        (0x40, Cause::UNTAGGED_VERSION),
        (0x43, Cause::UNTAGGED_VERSION),
    ] {
        let fault = Header::decode(&ulpdu(control)).unwrap_err();
        assert_eq!(fault.cause, cause);
    }
    // Reserved bits mean nothing.
    assert!(Header::decode(&ulpdu(0x7d)).is_ok());
}

#[test]
fn a_header_cut_short_is_a_fault() {
    for (_, header, _, _) in fpdu::fpdus() {
        let mut ulpdu = [0; 18];
        let len = header.encode(&mut ulpdu);
        for cut in 0..len {
            assert!(Header::decode(&ulpdu[..cut]).is_err(), "at {cut}");
        }
        assert_eq!(Header::decode(&ulpdu[..len]), Ok(header));
    }
}

#[test]
fn a_message_is_cut_at_the_mulpdu() {
    let cut: Vec<_> = Segments::new(fpdu::send(2, 0, true), 10, 24).collect();
    assert_eq!(
        cut,
        [
            (fpdu::send(2, 0, false), 0..6),
            (fpdu::send(2, 6, true), 6..10)
        ]
    );
    let first = fpdu::tagged(0x42, 0xa01, 0x1000, true);
    let cut: Vec<_> = Segments::new(first, 3000, 14 + 2996).collect();
    assert_eq!(
        cut,
        [
            (fpdu::tagged(0x42, 0xa01, 0x1000, false), 0..2996),
            (fpdu::tagged(0x42, 0xa01, 0x1bb4, true), 2996..3000)
        ]
    );
    let empty: Vec<_> = Segments::new(first, 0, 100).collect();
    assert_eq!(empty, [(first, 0..0)]);
}

#[test]
fn whole_messages_may_be_lent_and_parts_have_places() {
    let mut queue = Queue::new(0);
    queue.post(3);
    let place = |queue: &mut Queue, msn, mo, last, len| {
        queue.on_segment(&untagged(msn, mo, last), len, 10).unwrap()
    };
    assert_eq!(place(&mut queue, 1, 0, true, 10), Placement::Whole);
    let part = |at, last| Placement::Part { at, last };
    assert_eq!(place(&mut queue, 2, 0, false, 6), part(0, false));
    assert_eq!(place(&mut queue, 2, 6, true, 4), part(6, true));
    assert_eq!(queue.posted(), 1);
    assert_eq!(place(&mut queue, 3, 0, false, 10), part(0, false));
    assert_eq!(place(&mut queue, 3, 10, true, 0), part(10, true));
    assert_eq!(queue.posted(), 0);
}

#[test]
fn a_segment_out_of_turn_has_its_own_cause_and_changes_nothing() {
    let mut queue = Queue::new(0);
    let fault = |queue: &mut Queue, header: Untagged, len| {
        let before = format!("{queue:?}");
        let fault = queue.on_segment(&header, len, 10).unwrap_err();
        assert_eq!(format!("{queue:?}"), before);
        fault.cause
    };
    let none = fault(&mut queue, untagged(1, 0, true), 1);
    assert_eq!(none, Cause::UNTAGGED_NO_BUFFER);
    queue.post(5);
    let elsewhere = Untagged {
        qn: 1,
        ..untagged(1, 0, true)
    };
    assert_eq!(fault(&mut queue, elsewhere, 1), Cause::UNTAGGED_QN);
    for msn in [0, 2, 5, 6, u32::MAX] {
        let late = fault(&mut queue, untagged(msn, 0, true), 1);
        assert_eq!(late, Cause::UNTAGGED_MSN);
    }
    let ahead = fault(&mut queue, untagged(1, 4, true), 1);
    assert_eq!(ahead, Cause::UNTAGGED_MO);
    let idle = fault(&mut queue, untagged(1, 0, false), 0);
    assert_eq!(idle, Cause::UNTAGGED_MO);
    let long = fault(&mut queue, untagged(1, 0, true), 11);
    assert_eq!(long, Cause::UNTAGGED_TOO_LONG);
    queue.on_segment(&untagged(1, 0, false), 6, 10).unwrap();
    let again = fault(&mut queue, untagged(1, 0, false), 6);
    assert_eq!(again, Cause::UNTAGGED_MO);
    let long = fault(&mut queue, untagged(1, 6, true), 5);
    assert_eq!(long, Cause::UNTAGGED_TOO_LONG);
}

#[test]
fn windows_hold_what_lies_inside() {
    let window = Window {
        base: 0x1000,
        len: 0x100,
    };
    for (to, len, at) in [
        (0x1000, 0x100, Ok(0)),
        (0x10ff, 1, Ok(0xff)),
        (0x1100, 0, Ok(0x100)),
        (0xfff, 1, Err(Breach::Bounds)),
        (0x1100, 1, Err(Breach::Bounds)),
        (0x1001, 0x100, Err(Breach::Bounds)),
        (u64::MAX, 1, Err(Breach::Wrap)),
        (0x1000, u64::MAX, Err(Breach::Wrap)),
    ] {
        assert_eq!(window.offset(to, len), at, "{to:#x} + {len:#x}");
    }
    let top = Window {
        base: u64::MAX - 9,
        len: 9,
    };
    assert_eq!(top.offset(u64::MAX - 1, 1), Ok(8));
    assert_eq!(top.offset(u64::MAX - 1, 2), Err(Breach::Wrap));
}

#[test]
fn tagged_segments_go_where_their_stag_allows() {
    let header = Tagged {
        last: true,
        ulp: 0x40,
        stag: 7,
        to: 0x20,
    };
    let window = |base, len| Access::Granted(Window { base, len });
    for (access, len, placed) in [
        (window(0x10, 0x20), 16, Ok(0x10)),
        (window(0x10, 0x20), 17, Err(Cause::TAGGED_BOUNDS)),
        (window(0x21, 0x20), 1, Err(Cause::TAGGED_BOUNDS)),
        (Access::Unknown, 1, Err(Cause::TAGGED_STAG)),
        (Access::Foreign, 1, Err(Cause::TAGGED_FOREIGN)),
        (Access::Denied, 1, Err(Cause::ACCESS)),
    ] {
        let at = tagged(&header, len, |stag| {
            assert_eq!(stag, 7);
            access
        });
        assert_eq!(at.map_err(|fault| fault.cause), placed);
    }
    let wrap = Tagged {
        to: u64::MAX,
        ..header
    };
    let fault = tagged(&wrap, 2, |_| window(0, u64::MAX)).unwrap_err();
    assert_eq!(fault.cause, Cause::TAGGED_WRAP);
    let nothing = tagged(&header, 0, |_| panic!("looked up for nothing"));
    assert_eq!(nothing, Ok(0));
}

proptest! {
    #[test]
    fn segments_are_the_message(len in 0u32..70_000, mulpdu in 19usize..9000, is_tagged: bool, to: u64) {
        let first = if is_tagged { fpdu::tagged(0x42, 1, to, false) } else { fpdu::send(5, 0, false) };
        let segments: Vec<_> = Segments::new(first, len, mulpdu).collect();
        let mut at = 0;
        for (i, (header, range)) in segments.iter().enumerate() {
            prop_assert_eq!(range.start, at);
            prop_assert!(header.len() + range.len() <= mulpdu);
            prop_assert_eq!(header.last(), i + 1 == segments.len());
            match header {
                Header::Tagged(h) => prop_assert_eq!(h.to, to.wrapping_add(at as u64)),
                Header::Untagged(h) => prop_assert_eq!((h.msn, h.mo), (5, at as u32)),
            }
            at = range.end;
        }
        prop_assert_eq!(at, len as usize);
    }

    /// Whatever comes, what is placed is inside the buffer and in order.
    #[test]
    fn a_queue_never_places_outside(
        segments in prop::collection::vec((0u32..4, 0u32..40, any::<bool>(), 0usize..40), 0..60),
        posts in 0u16..8,
    ) {
        let mut queue = Queue::new(0);
        queue.post(posts);
        let (mut filled, mut done) = (0, 0);
        for (msn, mo, last, len) in segments {
            let turn = (1 + done, filled as u32);
            let Ok(placement) = queue.on_segment(&untagged(msn, mo, last), len, 32) else { continue };
            prop_assert_eq!((msn, mo), turn);
            prop_assert!(filled + len <= 32);
            match placement {
                Placement::Whole => prop_assert!(last && filled == 0),
                Placement::Part { at, last: end } => prop_assert!(at == filled && end == last),
            }
            filled = if last { 0 } else { filled + len };
            done += u32::from(last);
            prop_assert!(done <= u32::from(posts));
        }
        prop_assert_eq!(queue.posted(), u32::from(posts) - done);
    }
}
