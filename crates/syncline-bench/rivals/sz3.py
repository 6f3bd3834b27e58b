"""Runs SZ3 for the bench, after worker.py.

Requests have the algorithm, NumPy's name of the element type, the extents (slowest first), and the bound. Needs: pip
install pysz numpy.
"""
import time

import numpy
from pysz import sz, szAlgorithm, szConfig, szErrorBoundMode

ALGORITHMS = {
    'default': szAlgorithm.INTERP_LORENZO,
    'interpolation': szAlgorithm.INTERP,
    'lorenzo-regression': szAlgorithm.LORENZO_REG,
}


def compress(request, payload):
    extents = tuple(request['extents'])
    values = numpy.frombuffer(payload, request['element']).reshape(extents)
    config = szConfig(extents)
    config.errorBoundMode = szErrorBoundMode.ABS
    config.absErrorBound = request['bound']
    config.cmprAlgo = ALGORITHMS[request['algorithm']]
    config.openmp = False
    start = time.perf_counter()
    stream, _ = sz.compress(values, config)
    seconds = time.perf_counter() - start
    return numpy.ascontiguousarray(stream), seconds


def decompress(request, payload):
    stream = numpy.frombuffer(payload, 'u1')
    element = numpy.dtype(request['element']).type
    start = time.perf_counter()
    values, _ = sz.decompress(stream, element, tuple(request['extents']))
    seconds = time.perf_counter() - start
    return numpy.ascontiguousarray(values), seconds


serve(compress, decompress)
