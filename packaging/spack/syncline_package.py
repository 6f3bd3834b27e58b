# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Syncline(Package):
    """Lossless and error-bounded compression of numeric arrays: the command, the C library, and the HDF5 plugin."""

    homepage = "@REPOSITORY@"
    git = "@REPOSITORY@.git"

    license("MIT OR Apache-2.0", checked_by="syncline")

    version("@VERSION@", tag="v@VERSION@")

    depends_on("c", type="build")
    depends_on("rust@1.93:", type="build")

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("install", "--locked", "--root", prefix, "--path", "crates/syncline-cli")
        cargo("xtask", "install-c", "--prefix", prefix)

    def setup_run_environment(self, env):
        # HDF5 finds the filter there.
        env.prepend_path("HDF5_PLUGIN_PATH", join_path(self.prefix.lib, "syncline", "hdf5"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_demo(self):
        Executable(join_path(self.prefix.bin, "syncline"))("demo")
