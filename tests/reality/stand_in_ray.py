"""Replaces the `ray` library in the Ray recipe. Waits until all nodes have joined, then runs each
task in the calling process."""

import os
import socket
import time


class util:
    @staticmethod
    def get_node_ip_address():
        return socket.gethostname()


def _joined():
    with open("/tmp/ray-head") as file:
        port = int(file.read())
    with socket.create_connection(("127.0.0.1", port), 5) as line:
        line.sendall(b"count\n")
        return int(line.makefile().readline())


def init(address):
    assert address == "auto"
    end = time.monotonic() + 60
    while _joined() < int(os.environ["WORLD_SIZE"]):
        assert time.monotonic() < end, "not all nodes have joined"
        time.sleep(0.2)


def get_gpu_ids():
    return [0]


def remote(**_options):
    def decorated(function):
        function.remote = function
        return function

    return decorated


def get(values):
    return values
