//! (under construction)
use super::*;
/// stub
pub fn listen(_: SocketAddr, _: &Options) -> Result<Box<dyn Listener>> {
    Err(Error::Again)
}
/// stub
pub fn dial(
    _: SocketAddr,
    _: Option<SocketAddr>,
    _: &[u8],
    _: &Options,
) -> Result<Box<dyn Endpoint>> {
    Err(Error::Again)
}
