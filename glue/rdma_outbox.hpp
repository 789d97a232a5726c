/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_OUTBOX_HPP_INCLUDED__
#define __ZMQ_RDMA_OUTBOX_HPP_INCLUDED__

#include <list>
#include <stddef.h>

#include "macros.hpp"
#include "msg.hpp"
#include "rdma_address.hpp"
#include "stdint.hpp"

namespace zmq
{
struct i_encoder;

//  Flags of what libzmq says by itself: commands, of whatever kind.
const unsigned char rdma_control_flags =
  msg_t::command | msg_t::subscribe | msg_t::cancel;

//  A link, and the messages that are on their way into it: the one in the
//  encoder, and large ones that the link sends from where they are. Outlives
//  the engine, if need be, as part of a drain.
class rdma_outbox_t
{
  public:
    //  Owns the link from now on. batch_size_ is the size of the buffer of the
    //  encoders that will be used.
    rdma_outbox_t (zmq_rdma_link_t *link_, int batch_size_);

    //  Closes the link at once.
    ~rdma_outbox_t ();

    zmq_rdma_link_t *link () const { return _link; }

    //  The message to pull the next one into, and to give to the encoder then.
    msg_t *message () { return &_message; }

    //  Gives the message to the encoder, which puts whatever header it likes
    //  before it.
    void load (i_encoder *encoder_);

    //  True iff an encoder has been given the message and may still work on it.
    bool is_loaded () const { return _loaded; }

    //  True iff one of those messages was, or may have been, the user's.
    bool is_used () const { return _used; }

    //  Writes the message to the buffer, as the encoder, one of ZMTP 3, would,
    //  if it is the user's and fits in as a whole; else gives it to the encoder,
    //  which must be done with the one before. Returns how many bytes.
    size_t pack (i_encoder *encoder_, unsigned char *data_, size_t size_);

    //  Lets the encoder go on with its message; returns how many bytes it had
    //  for the buffer.
    size_t encode (i_encoder *encoder_, unsigned char *data_, size_t size_);

    //  True iff the message's body is to be lent next: the buffer has only its
    //  header, and the encoder is not done with it.
    bool has_body () const { return _whole; }

    //  Lends to the link what is left of a message, if that is worth it.
    //  Returns false if the link does not take all of it now. Adds to *sent_
    //  what it takes.
    bool lend (i_encoder *encoder_, size_t *sent_);

    //  Closes the messages that the link has sent.
    void release ()
    {
        if (!_lent.empty ())
            close_returned ();
    }

  private:
    //  A message that is lent, until the link has given so many bytes back.
    struct lent_t
    {
        msg_t message;
        uint64_t until;
    };

    //  The same, where it is known which.
    void load (i_encoder *encoder_, size_t header_);

    //  Whether the rest of the message is to be lent; takes it from the encoder.
    bool take_rest (i_encoder *encoder_);

    void close_returned ();

    static void close (msg_t *message_);

    const zmq_rdma_ops_t *const _ops;
    zmq_rdma_link_t *const _link;

    //  Less is copied.
    const size_t _worth;

    msg_t _message;
    bool _loaded;
    bool _used;

    //  All of it but the header is to be lent; so long is that at most.
    bool _whole;
    size_t _header;

    //  What the encoder has left of it, at least.
    size_t _left;

    //  What is left to lend of the last one in the list.
    const unsigned char *_rest;
    size_t _rest_size;

    std::list<lent_t> _lent;
    uint64_t _lent_bytes;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_outbox_t)
};
} // namespace zmq

#endif
