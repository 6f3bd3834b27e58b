"""Runs a codec of a Python package for the bench: `python -c SCRIPT CODEC OPTION`.

A request is a line of JSON on standard input with the operation, NumPy's name of the element type and Syncline's, the
extents, the absolute bound (null: lossless), the clock, and the number of bytes of its payload, and then the payload. A
reply is a line of JSON on standard output (seconds, bytes) and then that many bytes, or a line with an error. Each
function below returns two functions of an array or a stream and its request, which return what is to be timed.
"""
import json
import sys
import time

import numpy


def sz3(mode):
    from pysz import sz, szAlgorithm, szConfig, szErrorBoundMode

    def compress(values, request):
        config = szConfig(values.shape)
        config.errorBoundMode = szErrorBoundMode.ABS
        config.absErrorBound = request['bound']
        config.cmprAlgo = getattr(szAlgorithm, mode)
        config.openmp = False
        return lambda: sz.compress(values, config)[0]

    def decompress(stream, request):
        stream = numpy.frombuffer(stream, 'u1')
        element, extents = numpy.dtype(request['element']), tuple(request['extents'])
        return lambda: sz.decompress(stream, element.type, extents)[0]

    return compress, decompress


def zfp(_):
    import zfpy

    def compress(values, request):
        bound = request['bound']
        if bound is None:
            return lambda: zfpy.compress_numpy(values)
        # The largest tolerance, of powers of two times the bound, with which all errors are within the bound.
        for factor in (16, 8, 4, 2, 1):
            tolerance = factor * bound
            back = zfpy.decompress_numpy(zfpy.compress_numpy(values, tolerance=tolerance))
            if float(numpy.abs(back.astype('f8') - values).max(initial=0)) <= bound:
                break
        return lambda: zfpy.compress_numpy(values, tolerance=tolerance)

    return compress, lambda stream, request: lambda: zfpy.decompress_numpy(stream)


def zfp_fixed_rate(_):
    import zfpy

    def compress(values, request):
        # The fewest words of 64 bits for each block of 4 values along each axis that keep all errors within the bound.
        of_block = 4**values.ndim
        for words in range(1, of_block * values.itemsize // 8 + 2):
            rate = 64 * words / of_block
            back = zfpy.decompress_numpy(zfpy.compress_numpy(values, rate=rate))
            if float(numpy.abs(back.astype('f8') - values).max(initial=0)) <= request['bound']:
                return lambda: zfpy.compress_numpy(values, rate=rate)
        raise ValueError('no rate keeps the bound')

    return compress, lambda stream, request: lambda: zfpy.decompress_numpy(stream)


def blosc2(option):
    import blosc2

    codec, level = option.split()
    settings = {
        'codec': blosc2.Codec[codec],
        'clevel': int(level),
        'filters': [blosc2.Filter.SHUFFLE],
        'filters_meta': [0],
        'nthreads': 1,
    }

    def compress(values, request):
        payload = values.tobytes()
        return lambda: blosc2.compress2(payload, typesize=values.itemsize, **settings)

    return compress, lambda stream, request: lambda: blosc2.decompress2(stream, nthreads=1)


def zipnn(_):
    import zipnn

    names = {'bf16': 'bfloat16', 'f16': 'float16', 'f32': 'float32', 'u16': 'uint16', 'u32': 'uint32'}

    def codec(name):
        return zipnn.ZipNN(input_format='byte', bytearray_dtype=names[name], threads=1)

    def compress(values, request):
        payload, made = values.tobytes(), codec(request['name'])
        return lambda: made.compress(payload)

    def decompress(stream, request):
        made = codec(request['name'])
        return lambda: made.decompress(stream)

    return compress, decompress


def answer(request, payload, compress, decompress):
    """Returns a buffer and seconds."""
    if request['operation'] == 'compress':
        values = numpy.frombuffer(payload, request['element']).reshape(request['extents'])
        work = compress(values, request)
    else:
        work = decompress(payload, request)
    clock = time.process_time if request['processor'] else time.perf_counter
    start = clock()
    result = work()
    seconds = clock() - start
    return (result.tobytes() if isinstance(result, numpy.ndarray) else bytes(result)), seconds


def main():
    compress, decompress = globals()[sys.argv[1]](sys.argv[2])
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    replies.write(b'ready\n')
    replies.flush()
    for line in requests:
        request = json.loads(line)
        payload = requests.read(request['bytes'])
        try:
            result, seconds = answer(request, payload, compress, decompress)
            replies.write(json.dumps({'seconds': seconds, 'bytes': len(result)}).encode() + b'\n')
            replies.write(result)
        except Exception as error:  # the bench reports it and goes on
            replies.write(json.dumps({'error': repr(error)}).encode() + b'\n')
        replies.flush()


main()
