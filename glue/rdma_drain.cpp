/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <new>

#include "err.hpp"
#include "i_decoder.hpp"
#include "i_encoder.hpp"
#include "io_thread.hpp"
#include "macros.hpp"
#include "rdma_drain.hpp"
#include "rdma_engine.hpp"
#include "rdma_outbox.hpp"

void zmq::rdma_drain_t::launch (io_thread_t *io_thread_,
                                rdma_outbox_t *outbox_,
                                i_encoder *encoder_,
                                i_decoder *decoder_,
                                int limit_)
{
    rdma_drain_t *const drain =
      new (std::nothrow) rdma_drain_t (io_thread_, outbox_, encoder_, decoder_);
    alloc_assert (drain);

    //  Often there is nothing to wait for.
    if (drain->step () && limit_ != 0)
        drain->enter_poller (limit_);
    else
        delete drain;
}

zmq::rdma_drain_t::rdma_drain_t (io_thread_t *io_thread_,
                                 rdma_outbox_t *outbox_,
                                 i_encoder *encoder_,
                                 i_decoder *decoder_) :
    io_object_t (io_thread_),
    _ops (rdma_ops ()),
    _outbox (outbox_),
    _link (outbox_->link ()),
    _encoder (encoder_),
    _decoder (decoder_),
    _shut (false),
    _handle (static_cast<handle_t> (NULL)),
    _polling_out (false),
    _limited (false),
    _ticking (false)
{
    //  Lets the peer go on sending until it has all that we send: credit for
    //  us may come behind its own messages.
    _ops->deafen (_link);
}

zmq::rdma_drain_t::~rdma_drain_t ()
{
    if (_limited)
        cancel_timer (limit_timer_id);
    if (_ticking)
        cancel_timer (tick_timer_id);
    if (_handle)
        rm_fd (_handle);

    LIBZMQ_DELETE (_outbox);
    LIBZMQ_DELETE (_encoder);
    LIBZMQ_DELETE (_decoder);
}

void zmq::rdma_drain_t::enter_poller (int limit_)
{
    const fd_t fd = rdma_link_fd (_link);
    if (fd == retired_fd) {
        delete this;
        return;
    }
    _handle = add_fd (fd);
    set_pollin (_handle);
    if (_polling_out)
        set_pollout (_handle);

    if (limit_ > 0) {
        add_timer (limit_, limit_timer_id);
        _limited = true;
    }
    start_ticking ();
}

void zmq::rdma_drain_t::start_ticking ()
{
    const int ivl = _ops->tick (_link);
    if (ivl > 0) {
        add_timer (ivl, tick_timer_id);
        _ticking = true;
    }
}

void zmq::rdma_drain_t::in_event ()
{
    if (!step ())
        delete this;
}

void zmq::rdma_drain_t::out_event ()
{
    in_event ();
}

void zmq::rdma_drain_t::timer_event (int id_)
{
    if (id_ == limit_timer_id) {
        _limited = false;
        delete this;
        return;
    }
    zmq_assert (id_ == tick_timer_id);
    _ticking = false;
    start_ticking ();
    in_event ();
}

bool zmq::rdma_drain_t::step ()
{
    int state = _ops->crank (_link);
    if (state >= 0 && !_shut) {
        //  Nobody reads it any more.
        if (state & ZMQ_RDMA_PEER_SHUT)
            LIBZMQ_DELETE (_encoder);
        if (send_rest ()) {
            state = _ops->shut (_link);
            _shut = true;
        } else
            state = _ops->flush (_link);
    }
    if (state < 0 || (state & (ZMQ_RDMA_FINISHED | ZMQ_RDMA_DEAD)))
        return false;

    const bool out = (state & ZMQ_RDMA_WANT_OUT) != 0;
    if (out != _polling_out) {
        _polling_out = out;
        if (_handle && out)
            set_pollout (_handle);
        else if (_handle)
            reset_pollout (_handle);
    }
    return true;
}

bool zmq::rdma_drain_t::send_rest ()
{
    bool flushed = false;
    while (_encoder) {
        void *data;
        size_t size;
        size_t sent = 0;
        if (!_outbox->lend (_encoder, &sent)
            || _ops->reserve (_link, &data, &size) < 0) {
            if (flushed && sent == 0)
                return false;
            //  This may make room, and no event would tell.
            _ops->flush (_link);
            flushed = true;
            continue;
        }
        flushed = false;

        const size_t used =
          _outbox->encode (_encoder, static_cast<unsigned char *> (data), size);
        _ops->commit (_link, used);
        if (used < size && !_outbox->has_body ())
            LIBZMQ_DELETE (_encoder);
    }
    return true;
}
