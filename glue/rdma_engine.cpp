/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"
#include <algorithm>
#include <new>
#include <string.h>

#include "err.hpp"
#include "i_decoder.hpp"
#include "i_encoder.hpp"
#include "io_thread.hpp"
#include "likely.hpp"
#include "raw_encoder.hpp"
#include "raw_engine.hpp"
#include "rdma_counted.hpp"
#include "rdma_drain.hpp"
#include "rdma_engine.hpp"
#include "rdma_outbox.hpp"
#include "zmtp_engine.hpp"

//  For how long a close in good order is tried where nothing of the user's
//  depends on it, in milliseconds.
const int courtesy = 2000;

zmq::i_engine *zmq::rdma_engine (zmq_rdma_link_t *link_,
                                 fd_t fd_,
                                 const options_t &options_,
                                 const endpoint_uri_pair_t &endpoint_uri_pair_)
{
    i_engine *engine;
    if (options_.raw_socket)
        engine = new (std::nothrow)
          rdma_engine_t<rdma_counted_t<raw_engine_t> > (link_, fd_, options_,
                                                        endpoint_uri_pair_);
    else
        engine = new (std::nothrow)
          rdma_engine_t<rdma_counted_t<zmtp_engine_t> > (link_, fd_, options_,
                                                         endpoint_uri_pair_);
    alloc_assert (engine);
    return engine;
}

template <class Base>
zmq::rdma_engine_t<Base>::rdma_engine_t (
  zmq_rdma_link_t *link_,
  fd_t fd_,
  const options_t &options_,
  const endpoint_uri_pair_t &endpoint_uri_pair_) :
    Base (retired_fd, options_, endpoint_uri_pair_),
    _ops (rdma_ops ()),
    _link (link_),
    _io_thread (NULL),
    _outbox (new (std::nothrow) rdma_outbox_t (link_, options_.out_batch_size)),
    _gone (NULL),
    _polling_in (true),
    _polling_out (false),
    _parked (false),
    _ticking (false),
    _busy (false),
    _hot (false),
    _can_look (true),
    _failed (false),
    _at_fault (false),
    _linger (0)
{
    alloc_assert (_outbox);
    this->count_for (_link);

    _s = fd_;
    rdma_address_t peer;
    if (_ops->link_addr (_link, ZMQ_RDMA_PEER, &peer.raw) >= 0)
        _peer_address = peer.ip ();
}

//  Inside the namespace, since clang does not find the name otherwise.
namespace zmq
{
template <class Base> rdma_engine_t<Base>::~rdma_engine_t ()
{
    if (_gone)
        *_gone = true;

    //  The descriptor is the link's.
    _s = retired_fd;
    dispose ();
}
} // namespace zmq

template <class Base>
void zmq::rdma_engine_t<Base>::plug (io_thread_t *io_thread_,
                                     session_base_t *session_)
{
    _io_thread = io_thread_;
    _io_thread->get_poller ()->busy_poll ().enter (rdma_busy_poll (_options));
    _busy = true;
    Base::plug (io_thread_, session_);
}

template <class Base> void zmq::rdma_engine_t<Base>::plug_internal ()
{
    start_ticking ();
    Base::plug_internal ();
}

template <class Base> void zmq::rdma_engine_t<Base>::terminate ()
{
    _linger = this->session ()->linger_left ();
    if (!_outbox->is_used () && (_linger < 0 || _linger > courtesy))
        _linger = courtesy;

    leave_poller ();
    Base::terminate ();
}

template <class Base>
void zmq::rdma_engine_t<Base>::error (i_engine::error_reason_t reason_)
{
    //  The base reports errno.
    const int err = errno;
    _failed = true;
    _at_fault = reason_ == i_engine::protocol_error;
    leave_poller ();
    errno = err;
    Base::error (reason_);
}

template <class Base> void zmq::rdma_engine_t<Base>::leave_poller ()
{
    if (_ticking) {
        this->cancel_timer (tick_timer_id);
        _ticking = false;
    }
    cool ();
    if (_busy) {
        _io_thread->get_poller ()->busy_poll ().leave ();
        _busy = false;
    }
    //  The base is about to remove it.
    if (_parked)
        unpark ();
}

template <class Base> void zmq::rdma_engine_t<Base>::dispose ()
{
    i_encoder *encoder = NULL;
    if (_failed) {
        //  A peer that closes in good order waits for our part of it. One that
        //  made a mistake shall learn of it, and not try again and again.
        const int now = state (_ops->flush (_link));
        _linger = _at_fault || (now & ZMQ_RDMA_PEER_SHUT) ? courtesy : 0;
        if (_at_fault && _outsize > 0 && !_outbox->is_loaded ())
            encoder = rest_of_greeting ();
    } else if (_outbox->is_loaded ())
        std::swap (encoder, _encoder);

    //  A message in it may be where the device puts bytes.
    i_decoder *decoder = NULL;
    std::swap (decoder, _decoder);

    rdma_drain_t::launch (_io_thread, _outbox, encoder, decoder, _linger);
}

template <class Base>
zmq::i_encoder *zmq::rdma_engine_t<Base>::rest_of_greeting ()
{
    raw_encoder_t *const encoder = new (std::nothrow) raw_encoder_t (_outsize);
    alloc_assert (encoder);
    msg_t *const message = _outbox->message ();
    int rc = message->close ();
    errno_assert (rc == 0);
    rc = message->init_size (_outsize);
    errno_assert (rc == 0);
    memcpy (message->data (), _outpos, _outsize);
    _outbox->load (encoder);
    return encoder;
}

template <class Base>
bool zmq::rdma_engine_t<Base>::init_properties (
  typename Base::properties_t &properties_)
{
    if (!Base::init_properties (properties_))
        return false;

    char name[64];
    if (_ops->link_device (_link, name, sizeof (name)) >= 0)
        properties_.ZMQ_MAP_INSERT_OR_EMPLACE (std::string ("Rdma-Device"),
                                               std::string (name));
    return true;
}

template <class Base>
int zmq::rdma_engine_t<Base>::read (void *data_, size_t size_)
{
    //  More than a decoder's buffer is the message's own memory. That stays, so
    //  the device may put bytes there by itself.
    const size_t buffer = static_cast<size_t> (this->_options.in_batch_size);
    const int rc = unlikely (size_ > buffer)
                     ? _ops->read_into (_link, data_, size_)
                     : _ops->read (_link, data_, size_);
    if (likely (rc > 0))
        return rc;
    errno = rc == 0 ? EAGAIN : -rc;
    return -1;
}

template <class Base> int zmq::rdma_engine_t<Base>::state (int rc_)
{
    return likely (rc_ >= 0) ? rc_ : ZMQ_RDMA_READABLE | ZMQ_RDMA_DEAD;
}

template <class Base> void zmq::rdma_engine_t<Base>::in_event ()
{
    if (_hot) {
        take_look (true);
        return;
    }
    //  Input is stopped and not polled for, so this is an error condition that
    //  would be reported again and again.
    const bool hung_up = _input_stopped && !_polling_in;
    if (!go_on (state (_ops->crank (_link))))
        return;
    if (hung_up && _input_stopped && !_parked)
        park ();
    else if (_can_look && _busy && !_parked && is_ready ())
        _hot = _io_thread->get_poller ()->busy_poll ().heat (this);
}

template <class Base> bool zmq::rdma_engine_t<Base>::is_ready () const
{
    return !this->_handshaking
           && (_mechanism == NULL
               || _mechanism->status () == mechanism_t::ready);
}

template <class Base> bool zmq::rdma_engine_t<Base>::go_on (int state_)
{
    if (_input_stopped || !(state_ & ZMQ_RDMA_READABLE))
        state_ = push_out ();
    return advance (state_);
}

template <class Base> bool zmq::rdma_engine_t<Base>::take_look (bool told_)
{
    const int rc = _ops->look (_link, told_ ? 1 : 0);
    if (rc == -EAGAIN)
        return false;
    if (rc == -EOPNOTSUPP) {
        _can_look = false;
        cool ();
        return false;
    }
    //  The descriptor tells of the end for ever.
    const int now = state (rc);
    if (now & ZMQ_RDMA_DEAD)
        cool ();
    go_on (now);
    return true;
}

template <class Base> bool zmq::rdma_engine_t<Base>::look ()
{
    return take_look (false);
}

template <class Base> bool zmq::rdma_engine_t<Base>::rest ()
{
    _hot = false;
    const int now = state (_ops->crank (_link));
    go_on (now);
    return (now & (ZMQ_RDMA_READABLE | ZMQ_RDMA_DEAD)) != 0;
}

template <class Base> void zmq::rdma_engine_t<Base>::cool ()
{
    if (!_hot)
        return;
    _io_thread->get_poller ()->busy_poll ().cool (this);
    _hot = false;
}

template <class Base> bool zmq::rdma_engine_t<Base>::advance (int state_)
{
    //  The base reads once each time, but the descriptor does not tell of
    //  bytes that the link has taken in already.
    while ((state_ & ZMQ_RDMA_READABLE) && !_input_stopped) {
        bool gone = false;
        _gone = &gone;
        Base::in_event ();
        if (gone)
            return false;
        _gone = NULL;

        //  The base stops polling when it stops reading.
        _polling_in = !_input_stopped;
        state_ = push_out ();
    }
    if (is_over (state_)) {
        errno = ECONNRESET;
        error (i_engine::connection_error);
        return false;
    }
    poll (state_);
    return true;
}

template <class Base> bool zmq::rdma_engine_t<Base>::is_over (int state_)
{
    //  What is still to be read nobody will read, and nothing more can be sent:
    //  not even the end of the pipe would be noticed.
    return _input_stopped && (state_ & (ZMQ_RDMA_DEAD | ZMQ_RDMA_PEER_SHUT))
           && this->session ()->is_closing ();
}

template <class Base> void zmq::rdma_engine_t<Base>::session_closing ()
{
    if (_input_stopped)
        advance (push_out ());
}

template <class Base> bool zmq::rdma_engine_t<Base>::restart_input ()
{
    if (_parked)
        unpark ();

    bool gone = false;
    _gone = &gone;
    Base::restart_input ();
    if (gone)
        return false;
    _gone = NULL;

    //  If input has stopped again meanwhile, it may not be polled for.
    _polling_in = !_input_stopped;
    return advance (push_out ());
}

template <class Base> void zmq::rdma_engine_t<Base>::out_event ()
{
    //  While the base runs, it has something to send. Else, if the descriptor
    //  has become writable, then for the link to go on.
    if (_polling_out && !_gone) {
        in_event ();
        return;
    }

    _output_stopped = false;
    const int now = push_out ();
    if (!_gone)
        poll (now);
}

template <class Base> int zmq::rdma_engine_t<Base>::push_out ()
{
    //  The flush may make room for more, and no event would tell.
    for (bool first = true;; first = false) {
        const bool sent = !_output_stopped && fill ();
        const int now = state (_ops->flush (_link));
        _outbox->release ();
        if (_output_stopped || !(now & ZMQ_RDMA_WRITABLE) || !(sent || first))
            return now;
    }
}

template <class Base> bool zmq::rdma_engine_t<Base>::fill ()
{
    size_t sent = 0;
    void *data;
    size_t size;

    //  Without credit this ends with output not stopped: it goes on once the
    //  link is writable again.
    while (_outbox->lend (_encoder, &sent)
           && _ops->reserve (_link, &data, &size) >= 0) {
        const size_t used = encode (static_cast<unsigned char *> (data), size);
        _ops->commit (_link, used);
        sent += used;
        if (used < size && !_outbox->has_body ()) {
            //  The greeting comes before there is an encoder to stop.
            _output_stopped = _encoder != NULL;
            break;
        }
    }
    return sent > 0;
}

template <class Base>
size_t zmq::rdma_engine_t<Base>::encode (unsigned char *data_, size_t size_)
{
    size_t used = 0;
    if (unlikely (_outsize > 0)) {
        //  The greeting, which the base has written down for us.
        used = std::min (size_, _outsize);
        memcpy (data_, _outpos, used);
        _outpos += used;
        _outsize -= used;
    }

    while (likely (_encoder != NULL) && used < size_) {
        //  The encoder may be in the middle of a message, or of one of the
        //  base's (of an old protocol).
        if (unlikely (_outbox->is_loaded () || _mechanism == NULL)) {
            used += _outbox->encode (_encoder, data_ + used, size_ - used);
            if (used == size_ || _outbox->has_body ())
                break;
        }
        if (!this->next_message (_outbox->message ()))
            break;
        if (likely (_mechanism != NULL))
            used += _outbox->pack (_encoder, data_ + used, size_ - used);
        else
            _outbox->load (_encoder);
    }
    return used;
}

template <class Base> void zmq::rdma_engine_t<Base>::poll (int state_)
{
    if (_parked)
        return;

    const bool out = (state_ & ZMQ_RDMA_WANT_OUT) != 0;
    if (unlikely (out != _polling_out)) {
        _polling_out = out;
        if (out)
            Base::set_pollout ();
        else
            Base::reset_pollout ();
    }

    if (likely (!_input_stopped))
        return;

    //  Credits and acknowledgements arrive the same way as input does. But
    //  once the link has ended its descriptor is readable for ever.
    if (state_ & ZMQ_RDMA_DEAD) {
        park ();
        return;
    }
    const bool in = !(state_ & ZMQ_RDMA_PEER_SHUT);
    if (in != _polling_in) {
        _polling_in = in;
        if (in)
            Base::set_pollin ();
        else
            this->reset_pollin (_handle);
    }
}

template <class Base> void zmq::rdma_engine_t<Base>::park ()
{
    this->rm_fd (_handle);
    _parked = true;
    _polling_in = false;
    _polling_out = false;
}

template <class Base> void zmq::rdma_engine_t<Base>::unpark ()
{
    _handle = this->add_fd (_s);
    _parked = false;
}

//  What the base wants to send goes out when it returns.
template <class Base> void zmq::rdma_engine_t<Base>::set_pollout ()
{
}

template <class Base> void zmq::rdma_engine_t<Base>::reset_pollout ()
{
}

template <class Base> void zmq::rdma_engine_t<Base>::start_ticking ()
{
    const int ivl = _ops->tick (_link);
    if (ivl > 0) {
        this->add_timer (ivl, tick_timer_id);
        _ticking = true;
    }
}

template <class Base> void zmq::rdma_engine_t<Base>::timer_event (int id_)
{
    if (id_ == tick_timer_id) {
        _ticking = false;
        start_ticking ();
        advance (push_out ());
        return;
    }

    bool gone = false;
    _gone = &gone;
    //  If the base gives up now, it reports errno.
    errno = ETIMEDOUT;
    Base::timer_event (id_);
    if (gone)
        return;
    _gone = NULL;
    advance (push_out ());
}

template class zmq::rdma_engine_t<zmq::rdma_counted_t<zmq::zmtp_engine_t> >;
template class zmq::rdma_engine_t<zmq::rdma_counted_t<zmq::raw_engine_t> >;
