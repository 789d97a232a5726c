# SPDX-License-Identifier: MPL-2.0
# hello.rb [ENDPOINT]: ffi-rzmq over rdma://.

require 'ffi-rzmq'

# The binding leaves this function of libzmq's out.
module LibZMQ
  attach_function :zmq_msg_gets, [:pointer, :string], :string
end

def check(code)
  abort ZMQ::Util.error_string unless ZMQ::Util.resultcode_ok?(code)
end

context = ZMQ::Context.new
server = context.socket(ZMQ::REP)
client = context.socket(ZMQ::REQ)

check server.bind(ARGV[0] || 'rdma://127.0.0.1:*')
last = []
check server.getsockopt(ZMQ::LAST_ENDPOINT, last)
endpoint = last[0].delete("\0")
check client.connect(endpoint)

question = String.new
check client.send_string('hello')
check server.recv_string(question)
check server.send_string(question)
answer = ZMQ::Message.create
check client.recvmsg(answer)
device = LibZMQ.zmq_msg_gets(answer.pointer, 'Rdma-Device') || 'no RDMA device'
puts "#{answer.copy_out_string} over #{endpoint} by #{device}"

answer.close
client.close
server.close
context.terminate
