/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"

#include <algorithm>
#include <limits>
#include <sched.h>

#include "busy_poll.hpp"
#include "clock.hpp"
#include "err.hpp"

//  Waits that do not look, at most, before it is tried again.
const unsigned int longest_pause = 1024;

//  Between two looks: another thread has had the processor, in microseconds.
const uint64_t displaced = 20;

zmq::busy_poll_t::busy_poll_t (int cap_us_) :
    _hot_count (0),
    _turn (0),
    _cap (cap_us_),
    _limit (never),
    _users (0),
    _budget (0),
    _begun (0),
    _due (0),
    _looked (0),
    _allowed (0),
    _late (false),
    _vain (0),
    _pause (0),
    _next_pause (1)
{
}

void zmq::busy_poll_t::enter (int limit_)
{
    if (_users++ == 0)
        _limit = limit_;
}

void zmq::busy_poll_t::leave ()
{
    zmq_assert (_users > 0);
    _users--;
}

bool zmq::busy_poll_t::heat (i_busy_polled *who_)
{
    //  Not every kind of poller looks. One that does has begun to.
    if (_begun == 0 || _hot_count == most_hot || !is_on () || allowed () == 0)
        return false;
    _hot[_hot_count++] = who_;
    return true;
}

void zmq::busy_poll_t::cool (i_busy_polled *who_)
{
    i_busy_polled **const end = _hot + _hot_count;
    i_busy_polled **const at = std::find (_hot, end, who_);
    zmq_assert (at != end);
    *at = *(end - 1);
    _hot_count--;
}

bool zmq::busy_poll_t::look ()
{
    //  What one of them finds may make any of them leave. The next look begins
    //  behind it, so that one that always has something keeps nobody waiting.
    for (int looks = _hot_count; looks > 0 && _hot_count > 0; looks--) {
        _turn = (_turn + 1) % _hot_count;
        if (_hot[_turn]->look ())
            return true;
    }
    return false;
}

bool zmq::busy_poll_t::rest ()
{
    bool found = false;
    while (_hot_count > 0) {
        //  In the order in which they came, as their descriptors would tell.
        i_busy_polled *const first = _hot[0];
        std::copy (_hot + 1, _hot + _hot_count, _hot);
        _hot_count--;
        found = first->rest () || found;
    }
    return found;
}

uint64_t zmq::busy_poll_t::allowed () const
{
    const uint64_t cap =
      _cap > 0 ? _cap : std::numeric_limits<uint64_t>::max ();
    if (_limit == always)
        return cap;
    return std::min (cap, _limit == adaptive ? _budget
                                             : static_cast<uint64_t> (_limit));
}

void zmq::busy_poll_t::begin (int timeout_)
{
    _begun = _looked = clock_t::now_us ();
    _due = timeout_ > 0 ? _begun + static_cast<uint64_t> (timeout_) * 1000
                        : std::numeric_limits<uint64_t>::max ();
    _allowed = allowed ();
    if (_pause > 0) {
        _pause--;
        _allowed = 0;
    }
    _late = false;
    _vain = 0;
}

bool zmq::busy_poll_t::again ()
{
    if (_allowed == 0)
        return false;
    sched_yield ();
    const uint64_t now = clock_t::now_us ();
    if (_limit == adaptive && now - _looked > displaced) {
        //  Others need the processor more.
        _budget = 0;
        return false;
    }
    _looked = now;
    _late = now >= _due;
    if (now - _begun >= _allowed)
        _vain = now;
    return !_late && _vain == 0;
}

void zmq::busy_poll_t::end ()
{
    const uint64_t now = clock_t::now_us ();
    if (_vain != 0 && now - _vain < (_vain - _begun) / 2) {
        //  No sooner than it slept: it was looking on the processor that was
        //  needed to bring it.
        _pause = _next_pause;
        _next_pause = std::min (8 * _next_pause, longest_pause);
    } else if (_vain == 0 && _allowed != 0 && _next_pause > 1)
        //  One such look costs more than many others gain.
        _next_pause--;
    if (_limit != adaptive)
        return;
    const uint64_t waited = now - _begun;
    if (waited > adaptive_us)
        _budget /= 2;
    else
        _budget = adaptive_us;
}
