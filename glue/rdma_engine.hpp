/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_ENGINE_HPP_INCLUDED__
#define __ZMQ_RDMA_ENGINE_HPP_INCLUDED__

#include <string>

#include "busy_poll.hpp"
#include "rdma_address.hpp"
#include "stream_engine_base.hpp"

namespace zmq
{
class rdma_outbox_t;

//  Makes the engine that the options ask for. It owns the link from now on.
i_engine *rdma_engine (zmq_rdma_link_t *link_,
                       fd_t fd_,
                       const options_t &options_,
                       const endpoint_uri_pair_t &endpoint_uri_pair_);

//  An engine of libzmq's own, zmtp_engine_t or raw_engine_t, as rdma_counted_t,
//  over a link. The base speaks the protocol and knows the session; this class
//  moves its bytes, in fewer steps than over a socket: it encodes straight into
//  the link's buffers, and learns of both directions from the one descriptor
//  that the link has, so it never polls for output as the base would.
template <class Base>
class rdma_engine_t ZMQ_FINAL : public Base, public i_busy_polled
{
  public:
    rdma_engine_t (zmq_rdma_link_t *link_,
                   fd_t fd_,
                   const options_t &options_,
                   const endpoint_uri_pair_t &endpoint_uri_pair_);
    ~rdma_engine_t () ZMQ_OVERRIDE;

    //  i_engine interface implementation.
    void plug (zmq::io_thread_t *io_thread_,
               zmq::session_base_t *session_) ZMQ_OVERRIDE;
    void terminate () ZMQ_OVERRIDE;
    bool restart_input () ZMQ_OVERRIDE;
    void session_closing () ZMQ_OVERRIDE;

    //  i_poll_events interface implementation.
    void in_event () ZMQ_OVERRIDE;
    void out_event () ZMQ_OVERRIDE;
    void timer_event (int id_) ZMQ_OVERRIDE;

    //  i_busy_polled interface implementation.
    bool look () ZMQ_OVERRIDE;
    bool rest () ZMQ_OVERRIDE;

  protected:
    void plug_internal () ZMQ_OVERRIDE;
    void error (i_engine::error_reason_t reason_) ZMQ_OVERRIDE;
    bool
    init_properties (typename Base::properties_t &properties_) ZMQ_OVERRIDE;
    int read (void *data_, size_t size_) ZMQ_OVERRIDE;
    void set_pollout () ZMQ_OVERRIDE;
    void reset_pollout () ZMQ_OVERRIDE;

  private:
    using Base::_decoder;
    using Base::_encoder;
    using Base::_handle;
    using Base::_input_stopped;
    using Base::_mechanism;
    using Base::_options;
    using Base::_outpos;
    using Base::_output_stopped;
    using Base::_outsize;
    using Base::_peer_address;
    using Base::_s;

    //  ID of the timer that lets time pass for the link, different from the
    //  base's.
    enum
    {
        tick_timer_id = 0x90
    };

    //  Turns what the library returned into state bits.
    static int state (int rc_);

    //  Lets the base and the link work in turn while there is input and
    //  someone to take it. May delete this object; returns false then.
    bool advance (int state_);

    //  The same for a state that the device has just told.
    bool go_on (int state_);

    //  The peers know each other. Before that no link is looked at ahead of
    //  its turn: whoever connects first is the first to be ready.
    bool is_ready () const;

    //  Sends what there is to send; returns the link's state.
    int push_out ();

    //  Fills buffers of the link. Returns false if there was no use for one.
    bool fill ();

    //  Fills one buffer; returns how many bytes there were.
    size_t encode (unsigned char *data_, size_t size_);

    //  The socket is closing, and all that is left cannot be done.
    bool is_over (int state_);

    //  Polls for what the link and the session can use now.
    void poll (int state_);

    //  Takes the descriptor out of the poller, where it would be ready for
    //  ever; puts it back.
    void park ();
    void unpark ();

    //  Looks at the link; told_: its descriptor is readable. Returns whether
    //  there was anything.
    bool take_look (bool told_);

    //  Has itself looked at no more.
    void cool ();

    void start_ticking ();
    void leave_poller ();

    //  Hands the link over to be closed.
    void dispose ();

    //  An encoder with what has not been sent of the greeting: the peer may be
    //  waiting for it, to see what is wrong.
    i_encoder *rest_of_greeting ();

    const zmq_rdma_ops_t *const _ops;
    zmq_rdma_link_t *const _link;
    zmq::io_thread_t *_io_thread;

    //  Owns the link; on the heap since it may outlive this object.
    rdma_outbox_t *const _outbox;

    //  While code of the base runs that may delete this object: where to say
    //  that it did. NULL otherwise.
    bool *_gone;

    //  What the poller watches. Parked: nothing.
    bool _polling_in;
    bool _polling_out;
    bool _parked;

    //  True iff the tick timer is running.
    bool _ticking;

    //  True while the I/O thread knows that this engine may have it look
    //  before it sleeps.
    bool _busy;

    //  True while it looks at this engine; and whether the link's device can be
    //  looked at.
    bool _hot;
    bool _can_look;

    //  True once the base has given the connection up; and if it did so for
    //  what the peer said.
    bool _failed;
    bool _at_fault;

    //  How long the link may take to deliver what it has, once terminated.
    int _linger;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_engine_t)
};
} // namespace zmq

#endif
