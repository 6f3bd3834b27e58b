"""Runs SZ3 for the bench: requests on standard input, replies on standard output.

A request is a line of JSON (operation, algorithm, NumPy's name of the element type, extents slowest first, bound,
bytes), then that many bytes; a reply is a line of JSON (seconds, bytes) or (error), then the bytes. Needs: pip install
pysz numpy.
"""
import json
import sys
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
    return stream, time.perf_counter() - start


def decompress(request, payload):
    stream = numpy.frombuffer(payload, 'u1')
    element = numpy.dtype(request['element']).type
    start = time.perf_counter()
    values, _ = sz.decompress(stream, element, tuple(request['extents']))
    return values, time.perf_counter() - start


def main():
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    replies.write(b'ready\n')
    replies.flush()
    for line in requests:
        request = json.loads(line)
        payload = bytearray(requests.read(request['bytes']))
        try:
            operation = {'compress': compress, 'decompress': decompress}[request['operation']]
            result, seconds = operation(request, payload)
            result = numpy.ascontiguousarray(result)
            replies.write(json.dumps({'seconds': seconds, 'bytes': result.nbytes}).encode() + b'\n')
            replies.write(result.data)
        except Exception as error:  # the bench reports it and goes on
            replies.write(json.dumps({'error': repr(error)}).encode() + b'\n')
        replies.flush()


main()
