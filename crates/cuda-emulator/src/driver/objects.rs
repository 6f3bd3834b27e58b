//! What handles stand for: the types that the functions of the driver API share.

mod event;
mod function;
mod stream;

pub use event::{EVENTS, Event, Recorded, event};
pub use function::Function;
pub use stream::Stream;
