#!/usr/bin/env python3
"""Replaces the programs that the recipes run. Called by a program's name, it uses the job's
network, files and variables as that program does, but computes nothing."""

import http.server
import os
import socket
import sys
import threading
import time


def option(name, default=None):
    """Finds the value of `--name value` or `--name=value`."""
    for place, word in enumerate(sys.argv):
        if word == name:
            return sys.argv[place + 1]
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return default


def connected(address, port, seconds):
    end = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection((address, port), 5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def meet(address, port, rank, count):
    """Connects every rank to rank 0, which answers once all ranks have connected."""
    if rank > 0:
        with connected(address, port, 60) as line:
            line.sendall(b"%d\n" % rank)
            told = line.makefile().readline().strip()
    else:
        with socket.create_server(("", port)) as server:
            lines = [server.accept()[0] for _ in range(count - 1)]
            ranks = sorted(int(line.makefile().readline()) for line in lines)
            assert ranks == list(range(1, count)), ranks
            told = str(count)
            for line in lines:
                line.sendall(told.encode() + b"\n")
    print(f"rank {rank} met {told}", flush=True)


def launched():
    """Replaces torchrun and llamafactory-cli, which read the rendezvous from variables."""
    meet(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), int(os.environ["NODE_RANK"]), int(os.environ["NNODES"]))
    if "output_dir=/output" in sys.argv:
        with open(f"/output/rank-{os.environ['NODE_RANK']}", "w") as file:
            file.write("done")


def accelerate():
    assert os.path.getsize(option("--config_file")) > 0
    meet(option("--main_process_ip"), int(option("--main_process_port")), int(option("--machine_rank")), int(option("--num_machines")))


class Healthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()


def vllm():
    if sys.argv[1] == "run-batch":
        with open(option("-i")) as prompts, open(option("-o"), "w") as answers:
            answers.writelines(line.upper() for line in prompts)
        return
    assert os.environ["HF_TOKEN"], "HF_TOKEN from the secret is empty"
    open(os.path.join(os.environ["HF_HOME"], socket.gethostname()), "w").close()
    http.server.ThreadingHTTPServer(("", 8000), Healthy).serve_forever()


def head(port):
    """Counts the nodes that have joined and sends the number in response to every request."""
    joined = [1]
    with socket.create_server(("", port)) as server:
        while True:
            line = server.accept()[0]
            word = line.makefile().readline().strip()
            joined[0] += word == "join"
            line.sendall(b"%d\n" % joined[0])
            line.close()


def asked(address, word, seconds):
    host, port = address.split(":")
    with connected(host, int(port), seconds) as line:
        line.sendall(word.encode() + b"\n")
        return int(line.makefile().readline())


def ray():
    verb = sys.argv[1]
    if verb == "start" and "--head" in sys.argv:
        if os.fork() == 0:
            os.setsid()
            head(int(option("--port")))
        with open("/tmp/ray-head", "w") as file:
            file.write(option("--port"))
    elif verb == "start":
        print(f"joined as number {asked(option('--address'), 'join', 1)}", flush=True)
    elif verb == "health-check":
        asked(option("--address"), "health", 1)
    elif verb == "stop":
        os.system("pkill -f 'ray start --head' || true")


if __name__ == "__main__":
    name = os.path.basename(sys.argv[0])
    try:
        {"torchrun": launched, "llamafactory-cli": launched, "accelerate": accelerate, "vllm": vllm, "ray": ray}[name]()
    except OSError as error:
        sys.exit(f"{name}: {error}")
