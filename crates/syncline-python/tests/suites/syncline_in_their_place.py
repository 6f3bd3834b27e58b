"""A plugin of pytest that puts Syncline in place of the default codecs of Zarr, and of the compressors of numcodecs.

``pytest -p syncline_in_their_place`` runs their own tests with it; ``run.py`` does so.
"""

import importlib

from syncline.numcodecs import Syncline
from syncline.zarr import SynclineCodec

#: Compressors of numcodecs that take any buffer, by the names of their modules.
_COMPRESSORS = {"bz2": "BZ2", "gzip": "GZip", "lz4": "LZ4", "lzma": "LZMA", "zlib": "Zlib", "zstd": "Zstd"}

#: Tests of numcodecs that are about one compressor and not about any, with what they are about.
_OF_ONE_COMPRESSOR = {
    "test_backwards_compatibility": "its stored streams",
    "test_checksum": "its option",
    "test_eq": "its levels",
    "test_err_encode_non_contiguous": "its refusal of strides, which Syncline takes",
    "test_max_buffer_size": "its limit",
    "test_multi_frame": "its frames",
    "test_native_functions": "its functions",
    "test_out_too_large": "its tolerance of a larger out",
    "test_repr": "its name",
    "test_streaming_decompression": "its stored streams",
}

#: Tests of Zarr that expect its own default codec, with what they expect of it.
_OF_THE_DEFAULT = {
    "test_consolidated": "its name in the metadata",
    "test_consolidated_sync": "its name in the metadata",
    "test_delete_empty_shards": "the size of chunks without compression",
    "test_group_child_iterators": "its name in the metadata",
    "test_info_complete": "its name, and the size of chunks without compression",
    "test_info_complete_async": "its name, and the size of chunks without compression",
    "test_info_v2": "its name",
    "test_info_v2_async": "its name",
    "test_info_v3": "its name",
    "test_info_v3_async": "its name",
    "test_roundtrip_numcodecs": "its name in the metadata",
}


def pytest_configure():
    _replace_in_numcodecs()
    _replace_in_zarr()


def pytest_collection_modifyitems(items):
    import pytest

    for item in items:
        module = getattr(item, "module", None)
        if module is None or not module.__name__.startswith("numcodecs.tests"):
            if what := _OF_THE_DEFAULT.get(getattr(item, "originalname", None)):
                item.add_marker(pytest.mark.skip(f"expects the default codec of Zarr: {what}"))
            continue
        if what := _OF_ONE_COMPRESSOR.get(item.originalname):
            item.add_marker(pytest.mark.skip(f"about one compressor: {what}"))
        # Syncline has no text.
        module.arrays[:] = [array for array in module.arrays if array.dtype.kind not in "SUO"]


def _replace_in_numcodecs():
    for module, name in _COMPRESSORS.items():
        setattr(importlib.import_module(f"numcodecs.{module}"), name, lambda *_, **__: Syncline())


def _replace_in_zarr():
    import zarr.core.array as module

    serializer, compressors, compressor_2 = (
        getattr(module, f"default_{name}") for name in ("serializer_v3", "compressors_v3", "compressor_v2")
    )

    def has(dtype):
        """Whether Syncline has an element type."""
        try:
            SynclineCodec().validate(shape=(), dtype=dtype, chunk_grid=None)
        except TypeError:
            return False
        return True

    module.default_serializer_v3 = lambda dtype: SynclineCodec() if has(dtype) else serializer(dtype)
    module.default_compressors_v3 = lambda dtype: () if has(dtype) else compressors(dtype)
    module.default_compressor_v2 = lambda dtype: Syncline() if has(dtype) else compressor_2(dtype)
