/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_COUNTED_HPP_INCLUDED__
#define __ZMQ_RDMA_COUNTED_HPP_INCLUDED__

#include <new>

#include "err.hpp"
#include "likely.hpp"
#include "mechanism.hpp"
#include "rdma_address.hpp"
#include "rdma_decoder.hpp"
#include "rdma_outbox.hpp"
#include "session_base.hpp"
#include "stream_engine_base.hpp"

namespace zmq
{
//  An engine of libzmq's own that counts the messages of ZMTP 3: between the
//  session and the mechanism, where they are as users know them. It has a
//  decoder of ours.
template <class Base> class rdma_counted_t : public Base
{
  public:
    rdma_counted_t (fd_t fd_,
                    const options_t &options_,
                    const endpoint_uri_pair_t &endpoint_uri_pair_) :
        Base (fd_, options_, endpoint_uri_pair_),
        _messages (&_uncounted),
        _uncounted (),
        _counted_link (NULL)
    {
    }

  protected:
    using Base::_decoder;
    using Base::_has_timeout_timer;
    using Base::_has_ttl_timer;
    using Base::_mechanism;
    using Base::_metadata;
    using Base::_next_msg;
    using Base::_options;
    using Base::_process_msg;
    using Base::_session;

    //  From now on, count as this link's.
    void count_for (zmq_rdma_link_t *link_)
    {
        _counted_link = link_;
        if (rdma_ops ()->messages (link_, &_messages) < 0)
            _messages = &_uncounted;
    }

    //  Gets the next message, of the base's or of the session's. Returns false
    //  if there is none.
    bool next_message (msg_t *msg_)
    {
        //  Both as in the base: from that moment on messages flow.
        if (unlikely (_next_msg == &rdma_counted_t::next_handshake_command)
            && _mechanism->status () == mechanism_t::ready)
            this->mechanism_ready ();
        else if (unlikely (_next_msg != &rdma_counted_t::pull_and_encode))
            return (this->*_next_msg) (msg_) != -1;

        if (_session->pull_msg (msg_) == -1)
            return false;
        count (_messages->sent, msg_);
        return _mechanism->encode (msg_) != -1;
    }

    bool handshake () ZMQ_OVERRIDE
    {
        //  The base may have deleted this object.
        if (!Base::handshake ())
            return false;

        //  With a mechanism it is ZMTP 3. Nothing has been decoded yet.
        if (_mechanism != NULL) {
            LIBZMQ_DELETE (_decoder);
            _decoder = new (std::nothrow)
              rdma_decoder_t (_options.in_batch_size, _options.maxmsgsize,
                              _options.zero_copy, _counted_link);
            alloc_assert (_decoder);
        }
        return true;
    }

    //  As in the base; between its steps the message is counted.
    int decode_and_push (msg_t *msg_) ZMQ_OVERRIDE
    {
        if (_mechanism->decode (msg_) == -1)
            return -1;
        count (_messages->received, msg_);

        //  Whatever comes shows that the peer is there.
        if (unlikely (_has_timeout_timer)) {
            _has_timeout_timer = false;
            this->cancel_timer (Base::heartbeat_timeout_timer_id);
        }
        if (unlikely (_has_ttl_timer)) {
            _has_ttl_timer = false;
            this->cancel_timer (Base::heartbeat_ttl_timer_id);
        }
        if (unlikely (msg_->flags () & msg_t::command))
            this->process_command_message (msg_);

        if (_metadata)
            msg_->set_metadata (_metadata);
        if (likely (_session->push_msg (msg_) != -1))
            return 0;
        if (errno == EAGAIN)
            _process_msg = &rdma_counted_t::push_one_then_decode_and_push;
        return -1;
    }

  private:
    static void count (uint64_t &messages_, const msg_t *part_)
    {
        //  Other threads read it: one store, of the whole.
        if (likely (!(part_->flags () & (rdma_control_flags | msg_t::more))))
            *static_cast<volatile uint64_t *> (&messages_) = messages_ + 1;
    }

    zmq_rdma_messages_t *_messages;
    //  Where nobody looks.
    zmq_rdma_messages_t _uncounted;
    zmq_rdma_link_t *_counted_link;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_counted_t)
};
} // namespace zmq

#endif
