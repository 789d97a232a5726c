/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <algorithm>
#include <limits>
#include <string.h>

#include "err.hpp"
#include "likely.hpp"
#include "rdma_address.hpp"
#include "rdma_body.hpp"
#include "rdma_decoder.hpp"
#include "v2_protocol.hpp"
#include "wire.hpp"

zmq::rdma_decoder_t::rdma_decoder_t (size_t bufsize_,
                                     int64_t maxmsgsize_,
                                     bool zero_copy_,
                                     zmq_rdma_link_t *link_) :
    _allocator (bufsize_),
    _buffer (_allocator.allocate ()),
    _bufsize (bufsize_),
    _maxmsgsize (maxmsgsize_),
    _zero_copy (zero_copy_),
    _link (link_),
    _header_size (0),
    _body (NULL),
    _left (0)
{
    const int rc = _msg.init ();
    errno_assert (rc == 0);
    if (_link)
        rdma_ops ()->read_ahead (_link, _maxmsgsize < 0
                                          ? std::numeric_limits<size_t>::max ()
                                          : static_cast<size_t> (_maxmsgsize));
}

//  The allocator lets go of its buffer by itself.
zmq::rdma_decoder_t::~rdma_decoder_t ()
{
    const int rc = _msg.close ();
    errno_assert (rc == 0);
}

void zmq::rdma_decoder_t::get_buffer (unsigned char **data_, size_t *size_)
{
    _buffer = _allocator.allocate ();

    //  What is left of a large body goes straight to where it belongs.
    if (unlikely (_left >= _allocator.size ())) {
        *data_ = _body;
        *size_ = _left;
        return;
    }
    *data_ = _buffer;
    *size_ = _allocator.size ();
}

void zmq::rdma_decoder_t::resize_buffer (size_t size_)
{
    _allocator.resize (size_);
}

int zmq::rdma_decoder_t::decode (const unsigned char *data_,
                                 size_t size_,
                                 size_t &used_)
{
    used_ = 0;
    if (unlikely (_body != NULL))
        return go_on (data_, size_, &used_);

    unsigned char *const data = const_cast<unsigned char *> (data_);
    const bool between = _header_size == 0;
    int rc;
    if (likely (between && size_ >= 2
                && !(data[0] & v2_protocol_t::large_flag))) {
        used_ = 2;
        rc = begin (data[0], data[1], data + 2);
    } else if (between && size_ >= max_header_size) {
        used_ = max_header_size;
        rc = begin (data[0], get_uint64 (data + 1), data + max_header_size);
    } else {
        if (!collect (data_, size_, &used_))
            return 0;
        const bool large = _header[0] & v2_protocol_t::large_flag;
        rc = begin (_header[0], large ? get_uint64 (_header + 1) : _header[1],
                    data + used_);
    }
    return unlikely (rc == -1) ? -1 : go_on (data_, size_, &used_);
}

bool zmq::rdma_decoder_t::collect (const unsigned char *data_,
                                   size_t size_,
                                   size_t *used_)
{
    while (*used_ < size_) {
        _header[_header_size++] = data_[(*used_)++];
        const bool large = _header[0] & v2_protocol_t::large_flag;
        if (_header_size == (large ? max_header_size : 2u)) {
            _header_size = 0;
            return true;
        }
    }
    return false;
}

int zmq::rdma_decoder_t::begin (unsigned char flags_,
                                uint64_t size_,
                                unsigned char *body_)
{
    if (unlikely (
          (_maxmsgsize >= 0 && size_ > static_cast<uint64_t> (_maxmsgsize))
          || size_ != static_cast<size_t> (size_))) {
        errno = EMSGSIZE;
        return -1;
    }
    const size_t size = static_cast<size_t> (size_);

    int rc = _msg.close ();
    errno_assert (rc == 0);

    //  One that is small, or not here whole, gets memory of its own. The
    //  others stay in the buffer, and keep it.
    const unsigned char *const end = _allocator.data () + _allocator.size ();
    if (unlikely (size < static_cast<size_t> (msg_t::max_vsm_size)
                  || !_zero_copy || size > static_cast<size_t> (end - body_)))
        rc = body_ == end && adopt (size) ? 0 : _msg.init_size (size);
    else {
        rc = _msg.init_external_storage (
          _allocator.provide_content (), body_, size,
          shared_message_memory_allocator::call_dec_ref, _allocator.buffer ());
        _allocator.advance_content ();
        _allocator.inc_ref ();
    }
    if (unlikely (rc == -1)) {
        rc = _msg.init ();
        errno_assert (rc == 0);
        errno = ENOMEM;
        return -1;
    }

    //  The bits that mean the same in both are the same.
    unsigned char flags = 0;
    if (flags_ & v2_protocol_t::more_flag)
        flags |= msg_t::more;
    if (flags_ & v2_protocol_t::command_flag)
        flags |= msg_t::command;
    if (flags)
        _msg.set_flags (flags);

    _body = static_cast<unsigned char *> (_msg.data ());
    _left = size;
    return 0;
}

bool zmq::rdma_decoder_t::adopt (size_t size_)
{
    //  It must be read straight into its place.
    if (likely (!_link || size_ < rdma_body_least || size_ <= _bufsize))
        return false;
    void *data = NULL;
    zmq_rdma_body_t *body = NULL;
    if (rdma_ops ()->take_ahead (_link, size_, &data, &body) <= 0)
        return false;
    //  The device may be writing there: it can not just be freed.
    const int rc = _msg.init_data (data, size_, rdma_body_free, body);
    alloc_assert (rc == 0);
    return true;
}

int zmq::rdma_decoder_t::go_on (const unsigned char *data_,
                                size_t size_,
                                size_t *used_)
{
    const size_t n = std::min (_left, size_ - *used_);
    //  It may be there already.
    if (_body != data_ + *used_)
        memcpy (_body, data_ + *used_, n);
    *used_ += n;
    _left -= n;
    if (unlikely (_left > 0)) {
        _body += n;
        return 0;
    }
    _body = NULL;
    return 1;
}
