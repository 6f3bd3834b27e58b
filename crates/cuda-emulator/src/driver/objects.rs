//! The types of the objects that handles of the driver API refer to.

mod event;
mod function;
mod stream;

pub use event::{EVENTS, Event, Recorded, event};
pub use function::Function;
pub use stream::Stream;
