/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_DECODER_HPP_INCLUDED__
#define __ZMQ_RDMA_DECODER_HPP_INCLUDED__

#include <stddef.h>

#include "decoder_allocators.hpp"
#include "i_decoder.hpp"
#include "macros.hpp"
#include "msg.hpp"
#include "stdint.hpp"
#include "../include/zmq_rdma.h"

namespace zmq
{
//  Decodes ZMTP 3 as libzmq's v2_decoder_t does, from the same buffers into the
//  same messages, in one step instead of three where a message is in the buffer
//  as a whole.
class rdma_decoder_t ZMQ_FINAL : public i_decoder
{
  public:
    //  Arguments as for v2_decoder_t: size of its buffer; bytes of a body at
    //  most, -1: any; whether messages may stay in the buffer. The link that
    //  it decodes from, which may then READ large bodies ahead; NULL: none.
    rdma_decoder_t (size_t bufsize_,
                    int64_t maxmsgsize_,
                    bool zero_copy_,
                    zmq_rdma_link_t *link_);
    ~rdma_decoder_t () ZMQ_OVERRIDE;

    //  i_decoder interface.
    void get_buffer (unsigned char **data_, size_t *size_) ZMQ_OVERRIDE;
    void resize_buffer (size_t size_) ZMQ_OVERRIDE;
    int decode (const unsigned char *data_,
                size_t size_,
                size_t &used_) ZMQ_OVERRIDE;
    msg_t *msg () ZMQ_OVERRIDE { return &_msg; }

  private:
    //  Flags and the longest size.
    enum
    {
        max_header_size = 9
    };

    //  Collects a header that comes in pieces, or last. Returns false if it is
    //  not whole yet.
    bool collect (const unsigned char *data_, size_t size_, size_t *used_);

    //  Begins the message whose body is to be at body_, if it is there whole.
    //  Returns -1, with errno, if there may be none.
    int begin (unsigned char flags_, uint64_t size_, unsigned char *body_);

    //  Makes the message from memory where its body, all of which is to come,
    //  is already, or is on its way to. Returns false if there is none.
    bool adopt (size_t size_);

    //  Takes what there is of the body. Returns 1 if that is all of it.
    int go_on (const unsigned char *data_, size_t size_, size_t *used_);

    shared_message_memory_allocator _allocator;
    unsigned char *_buffer;
    const size_t _bufsize;
    const int64_t _maxmsgsize;
    const bool _zero_copy;
    zmq_rdma_link_t *const _link;

    unsigned char _header[max_header_size];
    size_t _header_size;

    //  The message, and what of its body is to come, and where to. Between
    //  messages: NULL.
    msg_t _msg;
    unsigned char *_body;
    size_t _left;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_decoder_t)
};
} // namespace zmq

#endif
