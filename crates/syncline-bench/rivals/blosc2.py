"""Runs Blosc2 for the bench: requests on standard input, replies on standard output.

A request is a line of JSON (operation, codec, level, typesize, processor, bytes), then that many bytes. A reply is a
line of JSON (seconds, bytes) or (error), then the bytes. One thread. Needs: pip install blosc2.
"""
import json
import sys
import time

import blosc2


def compress(request, payload):
    return blosc2.compress2(
        payload,
        codec=blosc2.Codec[request['codec']],
        clevel=request['level'],
        typesize=request['typesize'],
        filters=[blosc2.Filter.SHUFFLE],
        filters_meta=[0],
        nthreads=1,
    )


def decompress(request, payload):
    return blosc2.decompress2(payload, nthreads=1)


def main():
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    replies.write(b'ready\n')
    replies.flush()
    for line in requests:
        request = json.loads(line)
        payload = requests.read(request['bytes'])
        try:
            clock = time.process_time if request['processor'] else time.perf_counter
            operation = {'compress': compress, 'decompress': decompress}[request['operation']]
            start = clock()
            result = operation(request, payload)
            seconds = clock() - start
            replies.write(json.dumps({'seconds': seconds, 'bytes': len(result)}).encode() + b'\n')
            replies.write(result)
        except Exception as error:  # the bench reports it and goes on
            replies.write(json.dumps({'error': repr(error)}).encode() + b'\n')
        replies.flush()


main()
