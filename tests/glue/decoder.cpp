/* SPDX-License-Identifier: MPL-2.0 */
/*  decoder SEED CASES: our decoder beside libzmq's own, on the same bytes in the
    same pieces: messages of all sizes, and bytes that are none. Both give the
    same buffers, messages and errors. Linked with libzmq.a, of which it uses
    what is inside. */

#include "precompiled.hpp"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <list>
#include <vector>

#include "rdma_decoder.hpp"
#include "v2_decoder.hpp"

typedef std::vector<unsigned char> bytes_t;

static uint64_t state;

//  A number below bound_ (xorshift64*).
static size_t below (size_t bound_)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<size_t> ((state * 2685821657736338717ULL) >> 33)
           % bound_;
}

static void check (bool well_, const char *what_)
{
    if (well_)
        return;
    fprintf (stderr, "%s\n", what_);
    exit (1);
}

//  A size of a body: small, about what fits in a size byte, in the buffer, more.
static size_t any_size (size_t buffer_)
{
    switch (below (5)) {
        case 0:
            return below (70);
        case 1:
            return 250 + below (12);
        case 2:
            return buffer_ + below (40) - std::min<size_t> (buffer_, 20);
        case 3:
            return below (4 * buffer_);
        default:
            return 0;
    }
}

static void put_message (bytes_t *out_, size_t size_)
{
    //  Also flags that nobody has given a meaning, and small sizes the long way.
    unsigned char flags = below (8) ? below (2) : below (256);
    flags &= ~2;
    if (size_ > 255 || below (9) == 0)
        flags |= 2;
    out_->push_back (flags);
    if (flags & 2)
        for (int shift = 56; shift >= 0; shift -= 8)
            out_->push_back (static_cast<unsigned char> (
              static_cast<uint64_t> (size_) >> shift));
    else
        out_->push_back (static_cast<unsigned char> (size_));
    while (size_--)
        out_->push_back (static_cast<unsigned char> (below (256)));
}

//  What a decoder made of a stream.
struct outcome_t
{
    std::vector<size_t> rooms;
    std::list<zmq::msg_t> messages;
    int error;
};

//  As an engine does it: a buffer, some bytes, all messages in them.
static void run (zmq::i_decoder *decoder_,
                 const bytes_t &stream_,
                 const std::vector<size_t> &pieces_,
                 outcome_t *out_)
{
    out_->error = 0;
    size_t at = 0;
    for (size_t i = 0; at < stream_.size (); ++i) {
        unsigned char *data;
        size_t room;
        decoder_->get_buffer (&data, &room);
        out_->rooms.push_back (room);
        size_t left = std::min (std::min (room, stream_.size () - at),
                                pieces_[i % pieces_.size ()]);
        memcpy (data, &stream_[at], left);
        at += left;
        decoder_->resize_buffer (left);
        while (left > 0) {
            size_t used;
            const int rc = decoder_->decode (data, left, used);
            check (used <= left, "more was used than there was");
            data += used;
            left -= used;
            if (rc == -1) {
                out_->error = errno;
                return;
            }
            if (rc == 0)
                break;
            out_->messages.push_back (zmq::msg_t ());
            out_->messages.back ().init ();
            out_->messages.back ().move (*decoder_->msg ());
            if (i % 2)
                out_->messages.back ().close ();
        }
        check (left == 0, "bytes were left that ask for more");
    }
}

static void compare (outcome_t *one_, outcome_t *two_)
{
    check (one_->rooms == two_->rooms, "other buffers");
    check (one_->error == two_->error, "another error");
    check (one_->messages.size () == two_->messages.size (), "more messages");
    std::list<zmq::msg_t>::iterator a = one_->messages.begin (),
                                    b = two_->messages.begin ();
    for (; a != one_->messages.end (); ++a, ++b) {
        check (a->check () == b->check (), "one is closed");
        if (!a->check ())
            continue;
        check (a->size () == b->size () && a->flags () == b->flags ()
                 && a->is_vsm () == b->is_vsm ()
                 && a->is_lmsg () == b->is_lmsg ()
                 && a->is_zcmsg () == b->is_zcmsg (),
               "another message");
        check (memcmp (a->data (), b->data (), a->size ()) == 0, "other bytes");
        a->close ();
        b->close ();
    }
}

static size_t one_case ()
{
    const size_t sizes[] = {8192, 512, 100, 64};
    const size_t buffer = sizes[below (4)];
    const int64_t most = below (3) ? -1 : static_cast<int64_t> (below (2000));
    const bool zero_copy = below (4) != 0;

    bytes_t stream;
    for (size_t n = 1 + below (60); n > 0; --n)
        put_message (&stream, any_size (buffer));
    if (below (4) == 0) //  Nonsense.
        for (size_t n = below (200); n > 0; --n)
            stream.push_back (
              static_cast<unsigned char> (below (256) & (n > 9 ? 0x7d : 0x7f)));
    std::vector<size_t> pieces;
    const size_t most_of_piece = below (3) ? buffer : 1 + below (20);
    for (size_t n = 1 + below (50); n > 0; --n)
        pieces.push_back (1 + below (most_of_piece));

    outcome_t one, two;
    {
        zmq::v2_decoder_t theirs (buffer, most, zero_copy);
        zmq::rdma_decoder_t ours (buffer, most, zero_copy, NULL);
        run (&theirs, stream, pieces, &one);
        run (&ours, stream, pieces, &two);
    }
    const size_t count = one.messages.size ();
    compare (&one, &two);
    return count;
}

int main (int argc, char **argv)
{
    check (argc == 3, "usage: decoder SEED CASES");
    state = strtoull (argv[1], NULL, 10) * 2 + 1;
    size_t messages = 0;
    for (long n = atol (argv[2]); n > 0; --n)
        messages += one_case ();
    printf ("%lu messages\n", static_cast<unsigned long> (messages));
    return messages == 0;
}
