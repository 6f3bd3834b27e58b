# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PySyncline(PythonPackage):
    """Lossless and error-bounded compression of numeric arrays, with codecs for Zarr and a filter for HDF5."""

    homepage = "@REPOSITORY@"
    pypi = "syncline/syncline-@VERSION@.tar.gz"

    license("MIT OR Apache-2.0", checked_by="syncline")

    version("@VERSION@", sha256="@SHA256@")

    variant("zarr", default=False, description="Codec for Zarr format 3")
    variant("hdf5", default=True, description="Filter for h5py")

    depends_on("c", type="build")
    depends_on("rust@1.93:", type="build")
    depends_on("py-maturin@1.16:1", type="build")

    with default_args(type=("build", "run")):
        depends_on("python@3.11:")
        depends_on("py-numpy@1.26:")
        depends_on("py-zarr@3.1:3", when="+zarr")
        depends_on("py-h5py", when="+hdf5")

    import_modules = ["syncline"]
