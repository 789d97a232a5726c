/* SPDX-License-Identifier: MPL-2.0 */
/*  A C++ program as a user would write it, on the C API, in C++11: workers in
    threads of their own push to a collector, which answers each through a
    router; every message is checked. Usage: exchange SCHEME */

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <zmq.h>

namespace
{
struct zmq_failure_t : std::runtime_error
{
    explicit zmq_failure_t (const char *what_) :
        std::runtime_error (std::string (what_) + ": "
                            + zmq_strerror (zmq_errno ()))
    {
    }
};

void check (bool condition_, const char *what_)
{
    if (!condition_)
        throw zmq_failure_t (what_);
}

struct context_t
{
    context_t () : ptr (zmq_ctx_new ()) { check (ptr, "zmq_ctx_new"); }
    ~context_t () { zmq_ctx_term (ptr); }
    void *ptr;
};

struct socket_t
{
    socket_t (context_t &context_, int type_) :
        ptr (zmq_socket (context_.ptr, type_))
    {
        check (ptr, "zmq_socket");
    }
    ~socket_t () { zmq_close (ptr); }

    void send (const std::string &data_, bool more_ = false)
    {
        check (zmq_send (ptr, data_.data (), data_.size (),
                         more_ ? ZMQ_SNDMORE : 0)
                 >= 0,
               "zmq_send");
    }

    std::string recv ()
    {
        zmq_msg_t msg;
        zmq_msg_init (&msg);
        check (zmq_msg_recv (&msg, ptr, 0) >= 0, "zmq_msg_recv");
        std::string data (static_cast<char *> (zmq_msg_data (&msg)),
                          zmq_msg_size (&msg));
        zmq_msg_close (&msg);
        return data;
    }

    std::string bind (const std::string &endpoint_)
    {
        check (zmq_bind (ptr, endpoint_.c_str ()) == 0, "zmq_bind");
        char last[256];
        size_t size = sizeof last;
        check (zmq_getsockopt (ptr, ZMQ_LAST_ENDPOINT, last, &size) == 0,
               "ZMQ_LAST_ENDPOINT");
        return last;
    }

    void *ptr;
};

//  A message is a pure function of its worker and number.
std::string message (unsigned worker_, unsigned number_)
{
    uint32_t dice = worker_ * 2654435761u + number_ * 40503u + 1;
    std::string text (dice % 70000, '\0');
    for (size_t i = 0; i < text.size (); i++) {
        dice = dice * 1664525u + 1013904223u;
        text[i] = static_cast<char> (dice >> 24);
    }
    return text;
}

const unsigned workers = 4;
const unsigned rounds = 150;

void work (const std::string &endpoint_, unsigned worker_)
{
    try {
        context_t context;
        socket_t dealer (context, ZMQ_DEALER);
        check (zmq_connect (dealer.ptr, endpoint_.c_str ()) == 0,
               "zmq_connect");
        for (unsigned number = 0; number < rounds; number++) {
            dealer.send (std::to_string (worker_), true);
            dealer.send (std::to_string (number), true);
            dealer.send (message (worker_, number));
        }
        for (unsigned number = 0; number < rounds; number++)
            if (dealer.recv () != message (number, worker_))
                throw std::runtime_error ("an answer differs");
    }
    catch (const std::exception &error) {
        std::fprintf (stderr, "worker %u: %s\n", worker_, error.what ());
        std::_Exit (1);
    }
}
}

int main (int argc_, char **argv_)
{
    const std::string scheme = argc_ > 1 ? argv_[1] : "rdma";
    try {
        context_t context;
        socket_t router (context, ZMQ_ROUTER);
        const std::string endpoint = router.bind (scheme + "://127.0.0.1:*");
        std::vector<std::thread> threads;
        for (unsigned worker = 0; worker < workers; worker++)
            threads.emplace_back (work, endpoint, worker);
        for (unsigned count = 0; count < workers * rounds; count++) {
            const std::string identity = router.recv ();
            const unsigned worker = std::stoul (router.recv ());
            const unsigned number = std::stoul (router.recv ());
            if (router.recv () != message (worker, number))
                throw std::runtime_error ("a message differs");
            router.send (identity, true);
            router.send (message (number, worker));
        }
        for (std::thread &thread : threads)
            thread.join ();
        std::printf ("%u messages there and back over %s\n", workers * rounds,
                     endpoint.c_str ());
    }
    catch (const std::exception &error) {
        std::fprintf (stderr, "%s\n", error.what ());
        std::_Exit (1);
    }
    return 0;
}
