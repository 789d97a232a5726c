/* SPDX-License-Identifier: MPL-2.0 */

#include "precompiled.hpp"

#include <algorithm>
#include <limits>
#include <sched.h>

#include "busy_poll.hpp"
#include "clock.hpp"
#include "err.hpp"

//  Between two looks: another thread has had the processor, in microseconds.
const uint64_t displaced = 20;

zmq::busy_poll_t::busy_poll_t (int cap_us_) :
    _cap (cap_us_),
    _limit (never),
    _users (0),
    _budget (0),
    _begun (0),
    _due (0),
    _looked (0),
    _allowed (0),
    _late (false)
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
    _late = false;
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
    return !_late && now - _begun < _allowed;
}

void zmq::busy_poll_t::end ()
{
    if (_limit != adaptive)
        return;
    const uint64_t waited = clock_t::now_us () - _begun;
    if (waited > adaptive_us)
        _budget /= 2;
    else
        _budget = adaptive_us;
}
