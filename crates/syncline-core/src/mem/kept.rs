//! Memory whose type depends on the elements.

use std::any::Any;

/// Memory of one type that is kept from chunk to chunk: touching new memory takes longer than coding a small chunk.
#[derive(Debug, Default)]
pub struct Kept(Option<Box<dyn Any + Send + Sync>>);

impl Kept {
    /// Takes what was kept, unless it is of another type, which is then released.
    pub fn take<M: Any>(&mut self) -> Option<M> {
        self.0.take()?.downcast().ok().map(|memory| *memory)
    }

    /// Keeps memory instead of what was kept before.
    pub fn keep<M: Any + Send + Sync>(&mut self, memory: M) {
        self.0 = Some(Box::new(memory));
    }
}
