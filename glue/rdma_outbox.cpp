/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <algorithm>
#include <limits.h>
#include <limits>
#include <string.h>

#include "err.hpp"
#include "i_encoder.hpp"
#include "likely.hpp"
#include "rdma_outbox.hpp"
#include "v2_protocol.hpp"
#include "wire.hpp"

//  No encoder puts more than this before a large body: v3_1_encoder_t puts 19
//  before a subscription.
const size_t max_header_size = 20;

zmq::rdma_outbox_t::rdma_outbox_t (zmq_rdma_link_t *link_, int batch_size_) :
    _ops (rdma_ops ()),
    _link (link_),
    _worth (std::max (batch_size_, 1)),
    _loaded (false),
    _used (false),
    _whole (false),
    _header (0),
    _left (0),
    _rest (NULL),
    _rest_size (0),
    _lent_bytes (0)
{
    const int rc = _message.init ();
    errno_assert (rc == 0);
}

zmq::rdma_outbox_t::~rdma_outbox_t ()
{
    //  First of all, lest it read what is gone.
    _ops->close (_link);

    close (&_message);
    for (std::list<lent_t>::iterator it = _lent.begin (), end = _lent.end ();
         it != end; ++it)
        close (&it->message);
}

void zmq::rdma_outbox_t::close (msg_t *message_)
{
    const int rc = message_->close ();
    errno_assert (rc == 0);
}

void zmq::rdma_outbox_t::load (i_encoder *encoder_)
{
    load (encoder_, max_header_size);
}

void zmq::rdma_outbox_t::load (i_encoder *encoder_, size_t header_)
{
    //  Those of handshakes and heartbeats are commands.
    _used |= (_message.flags () & msg_t::command) == 0;
    encoder_->load_msg (&_message);
    _loaded = true;
    _left = _message.size ();

    //  Where the receiver may take it from where it is, all that is encoded is
    //  the header. If that is all, the receiver may have the body before it
    //  knows whose it is.
    size_t from = 0;
    _header = header_;
    _whole = unlikely (_left >= header_ + _worth)
             && _ops->lends_from (_link, &from) >= 0 && from > 0
             && _left >= from;
}

size_t zmq::rdma_outbox_t::pack (i_encoder *encoder_,
                                 unsigned char *data_,
                                 size_t size_)
{
    const unsigned char flags = _message.flags ();
    const size_t body = _message.size ();
    const bool large = body > UCHAR_MAX;
    const size_t header = large ? 9 : 2;
    if (unlikely (flags & rdma_control_flags) || header > size_
        || body > size_ - header) {
        load (encoder_,
              flags & rdma_control_flags || !large ? max_header_size : header);
        return 0;
    }

    _used = true;
    data_[0] = 0;
    if (flags & msg_t::more)
        data_[0] |= v2_protocol_t::more_flag;
    if (large) {
        data_[0] |= v2_protocol_t::large_flag;
        put_uint64 (data_ + 1, body);
    } else
        data_[1] = static_cast<unsigned char> (body);
    memcpy (data_ + header, _message.data (), body);

    close (&_message);
    const int rc = _message.init ();
    errno_assert (rc == 0);
    return header + body;
}

size_t zmq::rdma_outbox_t::encode (i_encoder *encoder_,
                                   unsigned char *data_,
                                   size_t size_)
{
    if (unlikely (_whole)) {
        const size_t done = _message.size () - _left;
        size_ = std::min (size_, _header - std::min (done, _header));
        if (size_ == 0)
            return 0;
    }
    unsigned char *pos = data_;
    const size_t used = encoder_->encode (&pos, size_);

    //  Headers count as well, so what is left can only be more.
    _left -= std::min (_left, used);
    //  Had it more, it would have filled the buffer.
    _loaded = used == size_;
    return used;
}

bool zmq::rdma_outbox_t::lend (i_encoder *encoder_, size_t *sent_)
{
    if (likely (_rest_size == 0) && !take_rest (encoder_))
        return true;

    while (_rest_size > 0) {
        const int rc = _ops->lend (_link, _rest, _rest_size);
        if (rc <= 0)
            return false;
        _rest += rc;
        _rest_size -= rc;
        _lent_bytes += rc;
        *sent_ += rc;
    }
    _lent.back ().until = _lent_bytes;
    return true;
}

bool zmq::rdma_outbox_t::take_rest (i_encoder *encoder_)
{
    if (likely (_left < _worth)
        || _message.size () - _left < (_whole ? _header : max_header_size))
        return false;

    //  Past the header, and with so much to go, an encoder that is given no
    //  buffer to fill tells where in the message it is.
    unsigned char *pos = NULL;
    _rest_size = encoder_->encode (&pos, 0);
    zmq_assert (_rest_size >= _left);
    _rest = pos;
    _left = 0;
    _whole = false;

    //  It is done with the message now, and would close it.
    _lent.push_back (lent_t ());
    lent_t &lent = _lent.back ();
    int rc = lent.message.init ();
    errno_assert (rc == 0);
    rc = lent.message.move (_message);
    errno_assert (rc == 0);
    lent.until = std::numeric_limits<uint64_t>::max ();
    return true;
}

void zmq::rdma_outbox_t::close_returned ()
{
    uint64_t returned = 0;
    if (_ops->returned (_link, &returned) < 0)
        return;
    while (!_lent.empty () && _lent.front ().until <= returned) {
        close (&_lent.front ().message);
        _lent.pop_front ();
    }
}
