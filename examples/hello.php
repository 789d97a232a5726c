<?php
// SPDX-License-Identifier: MPL-2.0
// hello.php [ENDPOINT]: the extension zmq over rdma://.

$context = new ZMQContext();
$server = $context->getSocket(ZMQ::SOCKET_REP);
$client = $context->getSocket(ZMQ::SOCKET_REQ);

$server->bind($argv[1] ?? 'rdma://127.0.0.1:*');
$endpoint = $server->getSockOpt(ZMQ::SOCKOPT_LAST_ENDPOINT);
$client->connect($endpoint);

$client->send('hello');
$server->send($server->recv());
// The binding cannot read a message's properties: ZMQ_RDMA_LOG=info tells the device.
echo $client->recv(), " over $endpoint\n";
