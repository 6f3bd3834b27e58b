"""Runs zfp for the bench, after worker.py.

Requests have NumPy's name of the element type, the extents (slowest first), and the bound. The tolerance is the largest
power of two times the bound, from 16 down, with which all errors are within the bound. Needs: pip install zfpy numpy.
"""
import time

import numpy
import zfpy


def compress(request, payload):
    extents = tuple(request['extents'])
    values = numpy.frombuffer(payload, request['element']).reshape(extents)
    bound = request['bound']
    for factor in (16, 8, 4, 2, 1):
        start = time.perf_counter()
        stream = zfpy.compress_numpy(values, tolerance=factor * bound)
        seconds = time.perf_counter() - start
        errors = numpy.abs(zfpy.decompress_numpy(stream).astype(numpy.float64) - values)
        if float(errors.max(initial=0)) <= bound:
            break
    return stream, seconds


def decompress(request, payload):
    start = time.perf_counter()
    values = zfpy.decompress_numpy(bytes(payload))
    return values.tobytes(), time.perf_counter() - start


serve(compress, decompress)
