/* SPDX-License-Identifier: MPL-2.0 */
//  glue/busy_poll on a clock of its own: when a wait looks, when it gives looking
//  up, and who is looked at.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busy_poll.hpp"
#include "clock.hpp"
#include "err.hpp"

using zmq::busy_poll_t;

static uint64_t now = 1000;

uint64_t zmq::clock_t::now_us ()
{
    return now;
}

void zmq::zmq_abort (const char *text_)
{
    fprintf (stderr, "%s\n", text_);
    abort ();
}

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf (stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);   \
            exit (1);                                                          \
        }                                                                      \
    } while (false)

//  A wait for what comes after come_ microseconds if the thread looks, and after_
//  microseconds after it has fallen asleep if not; a look takes step_. Returns
//  how often it looked.
static int wait (busy_poll_t &poll_, uint64_t come_, uint64_t after_, int step_)
{
    const uint64_t begun = now;
    int looks = 0;
    bool there = false;
    poll_.begin (-1);
    while (!there && poll_.again ()) {
        looks++;
        now += step_;
        there = now - begun >= come_;
    }
    if (!there)
        now += after_;
    poll_.end ();
    return looks;
}

static const uint64_t never_while_it_looks = 1000000000;

static void limits ()
{
    busy_poll_t poll;
    CHECK (!poll.is_on ());
    poll.enter (busy_poll_t::never);
    CHECK (!poll.is_on () && wait (poll, 5, 5, 1) == 0);
    poll.leave ();
    poll.enter (100);
    CHECK (poll.is_on ());
    const int looks = wait (poll, never_while_it_looks, 1000, 1);
    CHECK (looks >= 99 && looks <= 101);
    //  The first holds.
    poll.enter (busy_poll_t::always);
    CHECK (wait (poll, never_while_it_looks, 1000, 1) < 102);
    poll.leave ();
    poll.leave ();
    CHECK (!poll.is_on ());
    poll.enter (busy_poll_t::always);
    CHECK (wait (poll, 5000000, 0, 1000) >= 4999);

    busy_poll_t capped (1000);
    capped.enter (busy_poll_t::always);
    CHECK (wait (capped, never_while_it_looks, 5000, 10) <= 101);
}

static void adaptive ()
{
    busy_poll_t poll;
    poll.enter (busy_poll_t::adaptive);
    CHECK (wait (poll, 10, 10, 1) == 0);
    //  That one was short: the next looks.
    CHECK (wait (poll, 10, 10, 1) == 10);
    //  Long ones end that.
    int looks = 0;
    for (int i = 0; i < 10; i++)
        looks += wait (poll, never_while_it_looks, 100000, 1);
    CHECK (looks > 50 && looks < 120);
    CHECK (wait (poll, never_while_it_looks, 100000, 1) == 0);
    //  So does one that comes to the processor late.
    CHECK (wait (poll, 10, 10, 1) == 0);
    CHECK (wait (poll, 200, 100, 30) <= 1);
    CHECK (wait (poll, 10, 60, 1) == 0);
}

//  Looking on the processor that is needed to bring what is looked for costs the
//  whole look each time: it is given up, tried again after a while, and not
//  given up where it pays.
static void in_the_way ()
{
    busy_poll_t poll (1000);
    poll.enter (busy_poll_t::always);
    const int waits = 10000;
    int vain = 0;
    for (int i = 0; i < waits; i++)
        vain += wait (poll, never_while_it_looks, 20, 10) > 0;
    CHECK (vain >= 3 && vain < 20);

    //  One in three does: still no good.
    vain = 0;
    for (int i = 0; i < waits; i++)
        vain += wait (poll, i % 3 ? never_while_it_looks : 20, 20, 10) > 90;
    CHECK (vain < 20);

    for (int i = 0; i < 3000; i++)
        wait (poll, 20, 20, 10);
    CHECK (wait (poll, 20, 20, 10) == 2);
    //  That nothing comes for long is no sign of it.
    for (int i = 0; i < 100; i++)
        CHECK (wait (poll, never_while_it_looks, 100000, 10) > 90);
}

namespace
{
struct link_t : zmq::i_busy_polled
{
    explicit link_t (busy_poll_t &poll_) : poll (poll_) {}
    bool look ()
    {
        looks++;
        if (!news)
            return false;
        news = false;
        if (goes) {
            poll.cool (this);
            hot = false;
        }
        return true;
    }
    bool rest ()
    {
        hot = false;
        rests++;
        rested = ++rested_so_far;
        return news;
    }
    void heat () { hot = poll.heat (this); }

    busy_poll_t &poll;
    int looks = 0;
    int rests = 0;
    int rested = 0;
    static int rested_so_far;
    bool news = false;
    bool goes = false;
    bool hot = false;
};
int link_t::rested_so_far = 0;
}

static void who_is_looked_at ()
{
    busy_poll_t poll;
    link_t one (poll);
    link_t other (poll);
    poll.enter (busy_poll_t::always);
    //  A poller that never looks must not be told of anyone.
    one.heat ();
    CHECK (!one.hot);
    poll.begin (-1);
    one.heat ();
    other.heat ();
    CHECK (one.hot && other.hot);
    CHECK (!poll.look () && one.looks == 1 && other.looks == 1);
    one.news = one.goes = true;
    CHECK (poll.look () && !one.hot && !poll.look ());
    CHECK (one.looks == 2);
    //  All rest before a sleep, and none is looked at then.
    one.heat ();
    other.news = true;
    const int looks = one.looks + other.looks;
    CHECK (poll.rest () && one.rests == 1 && other.rests == 1);
    //  Those that came first do so first.
    CHECK (other.rested < one.rested);
    other.news = false;
    CHECK (!poll.look () && !poll.rest ());
    CHECK (one.looks + other.looks == looks && one.rests == 1);

    //  One that always has something does not keep the other waiting.
    one.goes = false;
    one.heat ();
    other.heat ();
    const int before[] = {one.looks, other.looks};
    for (int i = 0; i < 100; i++) {
        one.news = other.news = true;
        CHECK (poll.look ());
    }
    CHECK (one.looks - before[0] == 50 && other.looks - before[1] == 50);
    one.news = other.news = false;
    CHECK (!poll.rest ());

    //  No more than a few.
    link_t *crowd[100];
    int hot = 0;
    for (int i = 0; i < 100; i++) {
        crowd[i] = new link_t (poll);
        crowd[i]->heat ();
        hot += crowd[i]->hot;
    }
    CHECK (hot > 0 && hot < 20);
    poll.rest ();
    for (int i = 0; i < 100; i++) {
        CHECK (crowd[i]->rests == (i < hot ? 1 : 0));
        delete crowd[i];
    }

    //  Nobody where it would be let rest at once.
    busy_poll_t idle;
    link_t third (idle);
    idle.enter (busy_poll_t::adaptive);
    idle.begin (-1);
    third.heat ();
    CHECK (!third.hot);
}

int main ()
{
    limits ();
    adaptive ();
    in_the_way ();
    who_is_looked_at ();
    puts ("ok");
    return 0;
}
