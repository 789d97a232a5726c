/* SPDX-License-Identifier: MPL-2.0 */

#ifndef __ZMQ_BUSY_POLL_HPP_INCLUDED__
#define __ZMQ_BUSY_POLL_HPP_INCLUDED__

#include "macros.hpp"
#include "stdint.hpp"

namespace zmq
{
//  What a thread that does not sleep looks at by itself, beside its descriptors.
struct i_busy_polled
{
    virtual ~i_busy_polled () ZMQ_DEFAULT;

    //  Deals with what there is, if anything; returns whether there was. May
    //  delete the object, after it has left.
    virtual bool look () = 0;

    //  The thread may sleep now, so that from now on the descriptor must tell.
    //  It is looked at no more. Otherwise as look.
    virtual bool rest () = 0;
};

//  For how long a thread that waits looks again and again before it sleeps.
//  Of use where what it waits for comes sooner than a sleeper wakes. Off until
//  somebody needs it; belongs to one thread.
//
//      busy_poll.begin (timeout);
//      while (!there && busy_poll.again ())
//          there = look ();
//      if (!there)
//          sleep ();
//      busy_poll.end ();
class busy_poll_t
{
  public:
    //  What a limit may be beside a number of microseconds.
    enum
    {
        //  As long as it has been worth while of late, up to adaptive_us.
        adaptive = -2,
        always = -1,
        never = 0
    };
    enum
    {
        adaptive_us = 50
    };

    //  No wait looks for longer than cap_us microseconds; 0 is no such bound.
    explicit busy_poll_t (int cap_us_ = 0);

    //  Somebody who needs it comes and goes. Of several limits the first holds.
    void enter (int limit_);
    void leave ();

    bool is_on () const { return _users > 0 && _limit != never; }

    //  Has somebody who needs it looked at from now on; until rest is called,
    //  or they leave. Returns false if there is no point in it.
    bool heat (i_busy_polled *who_);
    void cool (i_busy_polled *who_);

    //  Looks at each, or lets each rest; whether there was anything.
    bool look ();
    bool rest ();

    //  A wait begins. It ends in timeout_ milliseconds at the latest, if that
    //  is above 0.
    void begin (int timeout_);

    //  Whether to look once more. Lets other threads run first.
    bool again ();

    //  True once the time-out is over.
    bool is_late () const { return _late; }

    //  What was waited for is there.
    void end ();

  private:
    //  Microseconds that this wait may look for.
    uint64_t allowed () const;

    //  As many as cost little to look at. The others sleep on descriptors.
    enum
    {
        most_hot = 8
    };
    i_busy_polled *_hot[most_hot];
    int _hot_count;

    //  Whom it looked at last.
    int _turn;

    const int _cap;
    int _limit;
    int _users;

    //  What an adaptive one allows now.
    uint64_t _budget;

    //  Times in microseconds: the wait's begin and time-out, the last look.
    uint64_t _begun;
    uint64_t _due;
    uint64_t _looked;
    uint64_t _allowed;
    bool _late;

    //  When this wait stopped looking in vain; 0 if it did not.
    uint64_t _vain;

    //  Waits that will not look: while looking kept that from coming which was
    //  looked for. And how many the next such case will add.
    unsigned int _pause;
    unsigned int _next_pause;

    ZMQ_NON_COPYABLE_NOR_MOVABLE (busy_poll_t)
};
}

#endif
