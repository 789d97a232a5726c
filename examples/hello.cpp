// SPDX-License-Identifier: MPL-2.0
// hello.cpp [ENDPOINT]: cppzmq over rdma://.

#include <iostream>
#include <string>
#include <zmq.hpp>

int main (int argc, char **argv)
{
    zmq::context_t context;
    zmq::socket_t server (context, zmq::socket_type::rep);
    zmq::socket_t client (context, zmq::socket_type::req);

    server.bind (argc > 1 ? argv[1] : "rdma://127.0.0.1:*");
    const std::string endpoint = server.get (zmq::sockopt::last_endpoint);
    client.connect (endpoint);

    zmq::message_t question, answer;
    client.send (zmq::buffer (std::string ("hello")), zmq::send_flags::none);
    if (!server.recv (question))
        return 1;
    server.send (question, zmq::send_flags::none);
    if (!client.recv (answer))
        return 1;

    //  Throws over a transport that is not rdma.
    std::string device = "no RDMA device";
    try {
        device = answer.gets ("Rdma-Device");
    }
    catch (const zmq::error_t &) {
    }
    std::cout << answer.to_string () << " over " << endpoint << " by " << device
              << std::endl;
}
