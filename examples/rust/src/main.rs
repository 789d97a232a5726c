// SPDX-License-Identifier: MPL-2.0
//! hello [ENDPOINT]: the crate zmq over rdma://.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = zmq::Context::new();
    let server = context.socket(zmq::REP)?;
    let client = context.socket(zmq::REQ)?;

    let endpoint = std::env::args().nth(1);
    server.bind(endpoint.as_deref().unwrap_or("rdma://127.0.0.1:*"))?;
    let endpoint = server.get_last_endpoint()?.map_err(|_| "no endpoint")?;
    client.connect(&endpoint)?;

    client.send("hello", 0)?;
    server.send(server.recv_msg(0)?, 0)?;
    let mut answer = client.recv_msg(0)?;
    let text = answer.as_str().unwrap_or_default().to_owned();
    let device = answer.gets("Rdma-Device").unwrap_or("no RDMA device");
    println!("{text} over {endpoint} by {device}");
    Ok(())
}
