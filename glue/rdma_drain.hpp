/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_RDMA_DRAIN_HPP_INCLUDED__
#define __ZMQ_RDMA_DRAIN_HPP_INCLUDED__

#include "io_object.hpp"
#include "rdma_address.hpp"

namespace zmq
{
class i_decoder;
struct i_encoder;
class io_thread_t;
class rdma_outbox_t;

//  What is left of an engine that has been terminated: sends the rest of the
//  message it was at, closes the link without loss, and deletes itself. The
//  descriptor that it polls keeps the I/O thread running, and so keeps
//  zmq_ctx_term from returning, after which the process may exit.
class rdma_drain_t ZMQ_FINAL : public io_object_t
{
  public:
    //  Takes over the outbox and the encoder that works on its message (NULL:
    //  nothing is left to send), and the decoder (or NULL), into whose message
    //  the link may be reading, for limit_ milliseconds at most (-1: for ever;
    //  0: what can be done at once is done).
    static void launch (zmq::io_thread_t *io_thread_,
                        rdma_outbox_t *outbox_,
                        i_encoder *encoder_,
                        i_decoder *decoder_,
                        int limit_);

  private:
    rdma_drain_t (zmq::io_thread_t *io_thread_,
                  rdma_outbox_t *outbox_,
                  i_encoder *encoder_,
                  i_decoder *decoder_);
    ~rdma_drain_t () ZMQ_OVERRIDE;

    //  IDs of the timers: the end of patience, and the link's passing of time.
    enum
    {
        limit_timer_id = 1,
        tick_timer_id = 2
    };

    //  Handlers for I/O events.
    void in_event () ZMQ_OVERRIDE;
    void out_event () ZMQ_OVERRIDE;
    void timer_event (int id_) ZMQ_OVERRIDE;

    //  Goes on as far as possible. Returns false if there is nothing left to
    //  do or to hope for.
    bool step ();

    //  Sends what is left of the message. Returns false if the link is not
    //  ready for the rest.
    bool send_rest ();

    //  Polls for what the link needs, starts the timers.
    void enter_poller (int limit_);
    void start_ticking ();

    const zmq_rdma_ops_t *const _ops;
    rdma_outbox_t *_outbox;
    zmq_rdma_link_t *const _link;
    i_encoder *_encoder;
    i_decoder *_decoder;

    //  True once the close has begun.
    bool _shut;

    handle_t _handle;
    bool _polling_out;
    bool _limited;
    bool _ticking;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (rdma_drain_t)
};
} // namespace zmq

#endif
