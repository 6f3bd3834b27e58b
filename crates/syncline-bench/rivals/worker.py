"""Serves requests of the bench, for a codec whose script follows this one in the same program.

A request is a line of JSON on standard input with the operation, the number of bytes of its payload, and what the codec
wants to know, and then the payload. A reply is a line of JSON on standard output (seconds, bytes) and then that many
bytes, or a line with an error.
"""
import json
import sys


def serve(compress, decompress):
    """Answers until the input ends. Both functions take a request and its payload, and return a buffer and
    seconds."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    replies.write(b'ready\n')
    replies.flush()
    for line in requests:
        request = json.loads(line)
        payload = bytearray(requests.read(request['bytes']))
        try:
            operation = {'compress': compress, 'decompress': decompress}[request['operation']]
            result, seconds = operation(request, payload)
            result = bytes(result)
            replies.write(json.dumps({'seconds': seconds, 'bytes': len(result)}).encode() + b'\n')
            replies.write(result)
        except Exception as error:  # the bench reports it and goes on
            replies.write(json.dumps({'error': repr(error)}).encode() + b'\n')
        replies.flush()
