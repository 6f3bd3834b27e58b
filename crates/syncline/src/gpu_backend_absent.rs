//! What stands for GPUs in a build without the feature `cuda`: none can be opened.

use std::ops::Range;

use syncline_core::array::ElementType;
use syncline_core::bound::{ErrorSummary, Resolved};
use syncline_core::container::Header;
use syncline_core::error::{Error, Result};
use syncline_core::geometry::{Geometry, Region};

use crate::devices::CudaDevices;
use crate::io::ReadAt;
use crate::options::{CompressOptions, Meter};
use crate::pool::Pool;
use crate::source::ArraySource;

/// No GPUs: there is no value of this type.
pub(crate) enum Gpus {}

impl Gpus {
    pub(crate) fn check(_: CudaDevices) -> Result<()> {
        Err(Error::gpu("this build has no GPU backend: build syncline with its feature `cuda`"))
    }

    pub(crate) fn open(devices: CudaDevices) -> Result<Self> {
        Err(Self::check(devices).err().unwrap_or(Error::Cancelled))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        match *self {}
    }
}

/// A compression that cannot be.
pub(crate) enum Compression {}

impl Compression {
    pub(crate) fn new(gpus: &Gpus, _: ElementType, _: &Geometry, _: &CompressOptions) -> Result<Self> {
        match *gpus {}
    }

    pub(crate) fn with_geometry(self, _: &Gpus, _: &Geometry, _: &CompressOptions) -> Result<Self> {
        match self {}
    }

    pub(crate) fn resolve<S: ReadAt + ?Sized>(
        &mut self,
        _: &ArraySource<S>,
        _: &CompressOptions,
        _: &Pool,
    ) -> Result<Resolved> {
        match *self {}
    }

    pub(crate) fn compress<S: ReadAt + ?Sized>(
        &mut self,
        _: &ArraySource<S>,
        _: &Header,
        _: &Pool,
        _: &Meter,
        _: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<(Vec<u32>, ErrorSummary)> {
        match *self {}
    }
}

/// Takes elements as they come: number of the part, first element in the order of the region, bytes.
type Put<'p> = dyn Fn(usize, u64, &[u8]) -> Result<()> + Sync + 'p;

/// A decompression that cannot be.
pub(crate) struct Decompression<'g>(&'g Gpus);

impl<'g> Decompression<'g> {
    pub(crate) fn new<S: ReadAt + ?Sized>(gpus: &'g Gpus, _: &S, _: &Region, _: Option<u64>) -> Result<Self> {
        match *gpus {}
    }

    pub(crate) fn parts(&self) -> Vec<Range<u64>> {
        match *self.0 {}
    }

    pub(crate) fn run<S: ReadAt + ?Sized>(&mut self, _: &S, _: &Pool, _: &Meter, _: &Put<'_>) -> Result<()> {
        match *self.0 {}
    }
}
