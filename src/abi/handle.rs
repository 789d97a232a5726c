//! Lifetime of handles.
pub struct ListenerCell;
pub struct DialCell;
pub struct LinkCell;
