# SPDX-License-Identifier: MPL-2.0
# hello.pl [ENDPOINT]: ZMQ::FFI over rdma://.

use strict;
use warnings;

use ZMQ::FFI qw(ZMQ_REP ZMQ_REQ ZMQ_LAST_ENDPOINT);

my $context = ZMQ::FFI->new;
my $server = $context->socket(ZMQ_REP);
my $client = $context->socket(ZMQ_REQ);

$server->bind($ARGV[0] // 'rdma://127.0.0.1:*');
my $endpoint = $server->get(ZMQ_LAST_ENDPOINT, 'string');
$client->connect($endpoint);

$client->send('hello');
$server->send($server->recv);
# The binding cannot read a message's properties: ZMQ_RDMA_LOG=info tells the device.
print $client->recv, " over $endpoint\n";
