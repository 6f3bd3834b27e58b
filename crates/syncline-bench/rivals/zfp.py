"""Runs zfp for the bench: requests on standard input, replies on standard output.

A request is a line of JSON (operation, NumPy's name of the element type, extents slowest first, bound, bytes), then
that many bytes; a reply is a line of JSON (seconds, bytes) or (error), then the bytes. The tolerance is the largest
power of two times the bound, from 16 down, with which all errors are within the bound. Needs: pip install zfpy numpy.
"""
import json
import sys
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
        if factor == 1 or float(errors.max(initial=0)) <= bound:
            return stream, seconds
    raise AssertionError('the loop returns')


def decompress(request, payload):
    start = time.perf_counter()
    values = zfpy.decompress_numpy(bytes(payload))
    return values.tobytes(), time.perf_counter() - start


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
            replies.write(json.dumps({'seconds': seconds, 'bytes': len(result)}).encode() + b'\n')
            replies.write(result)
        except Exception as error:  # the bench reports it and goes on
            replies.write(json.dumps({'error': repr(error)}).encode() + b'\n')
        replies.flush()


main()
