"""Runs Blosc2 for the bench, after worker.py, on one thread.

Requests have the codec, the level, the bytes of an element, and whether times are those of the processor. Needs: pip
install blosc2.
"""
import time

import blosc2


def timed(request, operation):
    clock = time.process_time if request['processor'] else time.perf_counter
    start = clock()
    result = operation()
    return result, clock() - start


def compress(request, payload):
    payload = bytes(payload)
    return timed(request, lambda: blosc2.compress2(
        payload,
        codec=blosc2.Codec[request['codec']],
        clevel=request['level'],
        typesize=request['typesize'],
        filters=[blosc2.Filter.SHUFFLE],
        filters_meta=[0],
        nthreads=1,
    ))


def decompress(request, payload):
    payload = bytes(payload)
    return timed(request, lambda: blosc2.decompress2(payload, nthreads=1))


serve(compress, decompress)
