"""Runs one rank of a training and keeps all ranks in step. gpuctl puts this program before the training's own command.

The command starts when every rank is there. Rank 0 coordinates: when a rank fails, all ranks stop and start again
together, in the pods that they have, and that costs one retry. A rank whose pod was taken away costs what the Job
controller counted for it: nothing after an eviction. It knows nothing of Kubernetes but its arguments, needs Python 3.6
without packages, and is one thread around `poll`, beside the one that connects.

Anybody can connect to the port of rank 0, so everything that arrives is hostile until an HMAC proves the token of this
training: lines are short, connections few, and nothing is parsed. After that a schema checks every message.
"""

import argparse
import errno
import hashlib
import hmac
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

FAILED = 113  # The Job's failure policy ends the training.
NOT_PLACED = 114  # The Job's failure policy replaces the pod at no cost.
SHARED_MEMORY = "/dev/shm"

GREETING = b"gpuctl/1 "
STRANGERS_LINE = 4096  # Bytes of a line before the first valid HMAC.
LINE = 65536
UNSENT = 262144  # Bytes that wait for a peer that does not read.
STRANGERS = 16  # Connections without a valid HMAC, besides one for each rank.
AUTHENTICATE_WITHIN = 10  # Seconds.


def say(text):
    sys.stderr.write("gpuctl: %s\n" % text)
    sys.stderr.flush()


def ranks(numbers):
    """Names ranks briefly: `rank 3`, `ranks 1, 2 and 5 more`."""
    numbers = sorted(numbers)
    shown = ", ".join(str(number) for number in numbers[:8])
    more = " and %d more" % (len(numbers) - 8) if len(numbers) > 8 else ""
    return ("rank " if len(numbers) == 1 else "ranks ") + shown + more


def span(seconds):
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return "%d%s" % (seconds // size, unit)
    return "%gs" % seconds


def whole(least, most):
    return lambda value: type(value) is int and least <= value <= most


def text(most):
    return lambda value: type(value) is str and len(value) <= most and value.isprintable()


def flag(value):
    return type(value) is bool


def seconds(value):
    """NaN and infinity compare false."""
    return type(value) in (int, float) and 0 <= value < 1e10


def optional(check):
    return lambda value: value is None or check(value)


def schemas(options):
    """The fields of every message and their checks: those that rank 0 accepts, and those that it sends."""
    rank, code, attempt = whole(0, options.ranks - 1), whole(0, 255), whole(0, 10 ** 6)
    # Ranks that reconnect together can exceed the retries before rank 0 ends the training.
    failed = whole(0, options.retries + options.ranks + 1)
    to_rank_0 = {
        "hello": {
            "run": text(200), "pod": text(200), "rank": rank, "attempt": attempt, "failed": failed,
            "failures": whole(0, options.retries + 1), "first_start": optional(seconds), "code": code, "memory": flag,
            "state": lambda value: value in ("idle", "running", "done"),
        },
        "alive": {"quiet": seconds},
        "ended": {"attempt": attempt, "code": code, "memory": flag, "since": seconds},
        "leaving": {},
    }  # fmt: skip
    from_rank_0 = {
        "start": {"attempt": attempt, "failed": failed, "used": failed, "first_start": seconds},
        "stop": {"text": text(1000), "failed": failed},
        "end": {"reason": text(100), "text": text(1000), "rank": optional(rank), "code": code},
        "finish": {},
        "alive": {},
    }
    return to_rank_0, from_rank_0


def short(convert):
    """Python 3.6 needs quadratic time for the digits of an integer."""

    def converted(digits):
        if len(digits) > 40:
            raise ValueError("too many digits")
        return convert(digits)

    return converted


def refuse(constant):
    raise ValueError(constant)


def parse(payload, schema):
    """Reads one message; raises ValueError when it does not match the schema."""
    message = json.loads(payload.decode(), parse_int=short(int), parse_float=short(float), parse_constant=refuse)
    kind = message.get("kind") if type(message) is dict else None
    fields = schema.get(kind) if type(kind) is str else None
    if fields is None or len(message) != len(fields) + 1:
        raise ValueError("unknown message")
    for name, check in fields.items():
        if name not in message or not check(message[name]):
            raise ValueError(name)
    return message


class Wire:
    """Authenticated messages over a socket.

    Both ends send a line with a random number, and derive a key from both numbers and the token of the training. Every
    further line is an HMAC and a JSON object. The HMAC covers the direction and the number of the message, so that nobody
    without the token can forge, replay, reorder or reflect one. Nothing is parsed before its HMAC is verified.
    """

    def __init__(self, sock, token, schema, is_server, address=None):
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock, self.incoming, self.outgoing = sock, b"", b""
        self.token, self.schema, self.is_server, self.address = token, schema, is_server, address
        self.nonce, self.key, self.trusted, self.waiting = os.urandom(32).hex().encode(), None, False, []
        self.sent, self.received, self.forged = 0, 0, False
        self.open, self.heard, self.closed_at, self.rank = True, time.monotonic(), None, None
        # Proxies that detect the protocol wait for the first bytes of the client.
        self.outgoing = GREETING + self.nonce + b"\n"
        self.flush()

    def fileno(self):
        return self.sock.fileno()

    def seal(self, from_server, number, payload):
        text = b"%d %d %s" % (from_server, number, payload)
        return hmac.new(self.key, text, hashlib.sha256).hexdigest().encode()

    def send(self, **message):
        if self.key is None:
            self.waiting.append(message)
            return
        payload = json.dumps(message).encode()
        self.outgoing += self.seal(self.is_server, self.sent, payload) + b" " + payload + b"\n"
        self.sent += 1
        self.flush()

    def flush(self):
        try:
            while self.open and self.outgoing:
                self.outgoing = self.outgoing[self.sock.send(self.outgoing) :]
        except BlockingIOError:
            # A peer that does not read must not fill the memory of rank 0.
            if len(self.outgoing) > UNSENT:
                self.close()
        except OSError:
            self.close()

    def receive(self):
        """Returns the messages that have arrived; a bad one closes the connection."""
        limit = LINE if self.trusted else STRANGERS_LINE
        try:
            data = self.sock.recv(limit)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.close()
            return []
        *lines, self.incoming = (self.incoming + data).split(b"\n")
        messages = []
        try:
            for line in lines + [None]:
                if len(self.incoming if line is None else line) > limit:
                    raise ValueError("too long")
                message = self.read(line) if line is not None else None
                if message is not None:
                    messages.append(message)
        except (ValueError, RecursionError):
            self.forged = True
            self.close()
        return messages

    def read(self, line):
        """Returns the message of a line, or None for the greeting. Raises ValueError for anything else."""
        if self.key is None:
            if len(line) != len(GREETING) + len(self.nonce) or not line.startswith(GREETING):
                raise ValueError("no greeting")
            theirs = line[len(GREETING) :]
            nonces = self.nonce + theirs if self.is_server else theirs + self.nonce
            self.key = hmac.new(self.token, GREETING + nonces, hashlib.sha256).digest()
            waiting, self.waiting = self.waiting, []
            for message in waiting:
                self.send(**message)
            return None
        seal, _, payload = line.partition(b" ")
        if not hmac.compare_digest(seal, self.seal(not self.is_server, self.received, payload)):
            raise ValueError("the token is wrong")
        message = parse(payload, self.schema)
        self.received, self.trusted, self.heard = self.received + 1, True, time.monotonic()
        return message

    def close(self):
        if self.open:
            self.open, self.closed_at = False, time.monotonic()
            self.incoming = self.outgoing = b""
            self.sock.close()

    def is_lost(self, settle, patience):
        """True when it has been closed, or silent, for longer than a reconnection takes."""
        now = time.monotonic()
        return now - self.closed_at > settle if self.closed_at else now - self.heard > patience


class Child:
    """The training's own command, and every process that descends from it."""

    def __init__(self, command, attempt, watched):
        self.ended, self.told, self.pipe, self.pid = None, time.monotonic(), None, None
        self.kills = killed_for_memory()
        out, into = os.pipe() if watched else (None, None)
        environment = dict(os.environ, GPUCTL_ATTEMPT=str(attempt))
        try:
            self.process = subprocess.Popen(
                command, stdout=into, stderr=into, env=environment, start_new_session=True
            )
            self.pid, self.pipe = self.process.pid, out
            if out is not None:
                os.set_blocking(out, False)
        except OSError as error:
            say("cannot start %s: %s" % (command[0], error.strerror))
            self.ended = 127 if isinstance(error, FileNotFoundError) else 126
        if into is not None:
            os.close(into)

    def pass_on(self):
        """Copies what the command prints to the container's output. False when there is nothing more for now."""
        try:
            data = os.read(self.pipe, 65536)
        except BlockingIOError:
            return False
        if not data:
            self.close_pipe()
        elif b"\n" in data or b"\r" in data:
            self.told = time.monotonic()
        rest = data
        while rest:
            rest = rest[os.write(1, rest) :]
        return bool(data)

    def close_pipe(self):
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None

    def signal(self, number):
        for target in (-self.pid, self.pid):
            try:
                os.kill(target, number)
                return
            except ProcessLookupError:
                pass

    def kill(self):
        """Ends everything that is left: workers in sessions of their own outlive a launcher that was killed."""
        for _ in range(20):
            left = descendants()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                return
            # One whose parent was ending meanwhile is found at the next look.
            time.sleep(0.01)


def descendants():
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, errors="replace") as file:
                    fields = file.read().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    own, found = os.getpid(), []
    for pid in parents:
        above = parents[pid]
        while above in parents and above != own:
            above = parents[above]
        if above == own:
            found.append(pid)
    return found


def killed_for_memory():
    """How many processes of this container the kernel has killed for want of memory; None where it does not say."""
    for place in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            with open(place) as file:
                counts = dict(line.split() for line in file)
            return int(counts["oom_kill"])
        except (OSError, KeyError, ValueError):
            pass
    return None


def clean_shared_memory():
    """Removes what killed processes left in /dev/shm, which counts against the container's memory."""
    for name in os.listdir(SHARED_MEMORY) if os.path.isdir(SHARED_MEMORY) else []:
        if name.startswith(("torch_", "nccl-", "psm_", "pymp-", "sem.mp-", "__KMP_REGISTERED_LIB")):
            try:
                os.unlink(os.path.join(SHARED_MEMORY, name))
            except OSError:
                pass


def listen_at(port, is_alone):
    """Listens for both families of addresses, or for IPv4 alone where there is no other; a rank alone only for itself."""
    try:
        if is_alone:
            raise OSError
        listener = socket.socket(socket.AF_INET6)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("::", port))
    except OSError:
        listener = socket.socket(socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1" if is_alone else "", port))
    return listener


class Coordinator:
    """Decides for all ranks when they start, stop and end. Lives in rank 0."""

    def __init__(self, options, token, schema):
        self.options, self.token, self.schema = options, token, schema
        self.listener = listen_at(options.port, options.ranks == 1)
        self.listener.listen(min(options.ranks * 2 + 128, 4096))
        self.listener.setblocking(False)
        self.wires, self.members = [], {}
        self.state = "gathering"
        self.attempt, self.first_start = 0, None
        self.failed_here, self.failures = 0, {}
        self.since = time.monotonic()
        self.faults, self.lost, self.told, self.first_to_go, self.last = [], {}, None, False, None
        self.refused, self.refused_at = 0, None

    def used(self):
        return self.failed_here + sum(self.failures.values())

    def accept(self):
        """Accepts a few connections, so that ranks are heard in between."""
        for _ in range(8):
            try:
                sock, address = self.listener.accept()
                self.wires.append(Wire(sock, self.token, self.schema, True, address[0]))
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE) and not self.drop_stranger(0):
                    say("a rank could not be heard: %s" % error.strerror)
                    time.sleep(0.1)
                return
            self.drop_stranger(self.options.ranks + STRANGERS)

    def drop_stranger(self, most):
        """Closes the oldest connection of the address with the most strangers, so that one host cannot push out others."""
        strangers = [wire for wire in self.wires if wire.open and wire.rank is None]
        if len(strangers) <= most:
            return False
        counts = {}
        for wire in strangers:
            counts[wire.address] = counts.get(wire.address, 0) + 1
        busiest = max(counts, key=counts.get)
        oldest = next(wire for wire in strangers if wire.address == busiest)
        oldest.close()
        self.wires.remove(oldest)
        return True

    def hear(self, wire):
        for message in wire.receive():
            kind, member = message["kind"], self.members.get(wire.rank)
            if kind == "hello" and wire.rank is None and message["run"] == self.options.run:
                self.hello(wire, message)
            elif member is None or member["wire"] is not wire or kind == "hello":
                wire.close()
                return
            elif kind == "alive":
                member["quiet"] = message["quiet"]
                if not wire.outgoing:
                    wire.send(kind="alive")
            elif kind == "ended":
                self.ended(wire.rank, message)
            elif kind == "leaving":
                member["leaving"] = True
                self.stop("%s: the pod is taken away" % ranks([wire.rank]))

    def hello(self, wire, message):
        rank, known = message["rank"], self.members.get(message["rank"])
        wire.rank = rank
        self.members[rank] = {
            "wire": wire, "pod": message["pod"], "state": message["state"], "quiet": 0.0, "leaving": False,
        }  # fmt: skip
        if known:
            known["wire"].close()
        self.failures[rank] = max(self.failures.get(rank, 0), message["failures"])
        if self.lost.get(rank) == message["pod"]:
            # Its pod was there all the time, so the Job controller counts nothing.
            self.failed_here, self.lost = self.failed_here + 1, {}
        # Rank 0 may have been replaced: the others remember what it knew.
        self.attempt = max(self.attempt, message["attempt"])
        self.failed_here = max(self.failed_here, message["failed"])
        starts = [start for start in (self.first_start, message["first_start"]) if start]
        self.first_start = min(starts) if starts else None
        same_pod = known is not None and known["pod"] == message["pod"]
        if self.state == "ending":
            wire.send(**self.last)
        elif self.state in ("running", "settling"):
            if same_pod and message["attempt"] == self.attempt:
                # Only the connection was gone.
                if message["state"] != "running":
                    self.members[rank]["state"] = "running"
                    self.ended(rank, message)
                return
            if same_pod:
                self.failed_here += 1
            self.stop("%s: %s" % (ranks([rank]), "the connection was lost" if same_pod else "the pod is new"))
        elif message["state"] == "running":
            self.members[rank]["state"] = "stopping"
            wire.send(kind="stop", text="rank 0: the pod is new", failed=self.failed_here)

    def ended(self, rank, message):
        member = self.members[rank]
        if member["state"] not in ("running", "stopping"):
            return
        counts = self.state in ("running", "settling") and message["attempt"] == self.attempt
        member["state"] = "done" if counts and message["code"] == 0 else "idle"
        if counts and message["code"] != 0:
            # A rank reports its end after it has ended its workers, which can take longer than on a peer.
            self.faults.append((time.monotonic() - message.get("since", 0.0), rank, message))
            if self.state == "running":
                # Peers of a pod that is gone end as well: give the news of it time to arrive.
                self.state, self.since = "settling", time.monotonic()

    def tick(self):
        now = time.monotonic()
        for wire in self.wires:
            if wire.rank is None and now - wire.heard > min(AUTHENTICATE_WITHIN, self.options.patience):
                wire.close()
        self.report_refused(now)
        self.wires = [wire for wire in self.wires if wire.open]
        settle, patience = self.options.settle, self.options.patience
        gone = [rank for rank, member in self.members.items() if member["wire"].is_lost(settle, patience)]
        limit = self.options.max_runtime
        if self.state == "gathering":
            for rank in gone:
                self.members.pop(rank)["wire"].close()
            self.gather(now)
        elif self.state == "settling" and now - self.since > self.options.settle:
            self.settle(gone)
        elif self.state == "running":
            self.watch(gone, now)
        if self.state != "ending" and limit and self.first_start and time.time() - self.first_start > limit:
            self.end("DeadlineExceeded", "the training ran longer than `job.max_runtime` (%s)" % span(limit))

    def report_refused(self, now):
        """Says once a minute that connections were refused: a rank with another token would wait without a word."""
        self.refused += sum(1 for wire in self.wires if wire.forged and wire.rank is None)
        if self.refused and (self.refused_at is None or now - self.refused_at > 60):
            say("connections without the token of this training were refused: %d" % self.refused)
            self.refused, self.refused_at = 0, now

    def gather(self, now):
        missing = set(range(self.options.ranks)) - set(self.members)
        stopping = [member for member in self.members.values() if member["leaving"] or member["state"] in ("running", "stopping")]
        if self.used() > self.options.retries:
            self.end("Error", "all %d retries are used" % self.options.retries)
        elif not missing and not stopping:
            self.attempt += 1
            self.first_start = self.first_start or time.time()
            self.faults, self.lost, self.state, self.since = [], {}, "running", now
            for member in self.members.values():
                member["state"], member["quiet"] = "running", 0.0
            self.tell(
                kind="start", attempt=self.attempt, failed=self.failed_here, used=self.used(), first_start=self.first_start
            )
        elif now - self.since > self.options.alive and (missing, len(stopping)) != self.told:
            self.told = (missing, len(stopping))
            if missing:
                say("%d of %d ranks are there, %s not" % (len(self.members), self.options.ranks, ranks(missing)))
            if stopping:
                say("%d of %d ranks have not stopped yet" % (len(stopping), self.options.ranks))

    def watch(self, gone, now):
        if gone:
            self.lose(gone)
            return
        if all(member["state"] == "done" for member in self.members.values()):
            self.state, self.since = "ending", now
            self.tell_last(kind="finish")
            return
        running = [member["quiet"] for member in self.members.values() if member["state"] == "running"]
        limit = self.options.hang_timeout
        if limit and running and min(running) > limit and now - self.since > limit:
            self.failed("NoProgress", "no rank printed a line for %s (`job.hang_timeout`)" % span(limit), None, 1)

    def lose(self, gone):
        self.lost = {rank: self.members[rank]["pod"] for rank in gone}
        self.stop("%s: the pod is gone" % ranks(gone))

    def settle(self, gone):
        # A wire that is closed now may belong to a pod that is gone.
        closed = [rank for rank, member in self.members.items() if not member["wire"].open]
        if closed and not gone:
            return
        if gone:
            self.lose(gone)
            return
        _, rank, fault = min(self.faults, key=lambda fault: fault[0])
        code = fault["code"]
        if fault["memory"]:
            self.failed("OOMKilled", "rank %d ran out of memory (exit code %d)" % (rank, code), rank, code)
        else:
            self.failed("Error", "rank %d ended with exit code %d" % (rank, code), rank, code)

    def failed(self, reason, text, rank, code):
        self.failed_here += 1
        used, all_of_them = self.used(), self.options.retries
        if used > all_of_them:
            retries = "there are no retries" if all_of_them == 0 else "all %d retries are used" % all_of_them
            self.end(reason, "%s; %s" % (text, retries), rank, code)
        else:
            self.stop("%s; retry %d of %d" % (text, used, all_of_them))

    def stop(self, text):
        if self.state in ("running", "settling"):
            self.state, self.since, self.told = "gathering", time.monotonic(), None
            for member in self.members.values():
                if member["state"] == "running":
                    member["state"] = "stopping"
            self.tell(kind="stop", text=text, failed=self.failed_here)

    def end(self, reason, text, rank=None, code=1):
        self.state, self.since, self.first_to_go = "ending", time.monotonic(), rank == 0
        self.tell_last(kind="end", reason=reason, text=text, rank=rank, code=code)

    def tell_last(self, **message):
        self.last = message
        self.tell(**message)

    def tell(self, **message):
        for member in self.members.values():
            member["wire"].send(**message)

    def is_over(self):
        """True when nobody needs rank 0 any more."""
        others = [member["wire"] for rank, member in self.members.items() if rank != 0]
        waited = time.monotonic() - self.since
        told = not any(wire.outgoing for wire in others) and waited > 0.7
        late = waited > self.options.grace + 10
        return self.state == "ending" and (late or self.first_to_go and told or not any(wire.open for wire in others))


class Rank:
    """One rank: its command, and its wire to the coordinator."""

    def __init__(self, options):
        self.options = options
        to_rank_0, self.schema = schemas(options)
        self.token = read_token(options.token)
        self.coordinator = Coordinator(options, self.token, to_rank_0) if options.rank == 0 else None
        self.wire, self.connecting, self.found = None, False, []
        self.child, self.state, self.attempt, self.last = None, "idle", 0, None
        self.ended_at = None
        self.failed, self.first_start = 0, None
        self.kill_at, self.exit_at, self.leaving, self.code = None, None, False, 0
        self.alive_at, self.connect_at = 0.0, 0.0
        self.refusals, self.refused_at = 0, None
        self.waiting_since = time.monotonic()
        self.wake_read, self.wake_write = os.pipe()
        os.set_blocking(self.wake_read, False)
        os.set_blocking(self.wake_write, False)
        signal.set_wakeup_fd(self.wake_write)
        self.asked_to_leave, self.stopped = False, False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.ask_to_leave)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def run(self):
        while True:
            self.turn()
            code = self.over()
            if code is not None:
                return code

    def turn(self):
        sources = {self.wake_read: self.wake_read}
        poll = select.poll()
        poll.register(self.wake_read, select.POLLIN)
        wires = [self.wire] if self.wire and self.wire.open else []
        if self.coordinator:
            wires += [wire for wire in self.coordinator.wires if wire.open]
            sources[self.coordinator.listener.fileno()] = self.coordinator.listener
            poll.register(self.coordinator.listener, select.POLLIN)
        for wire in wires:
            sources[wire.fileno()] = wire
            poll.register(wire, select.POLLIN | (select.POLLOUT if wire.outgoing else 0))
        if self.child and self.child.pipe is not None:
            sources[self.child.pipe] = self.child
            poll.register(self.child.pipe, select.POLLIN)
        accepts = False
        for number, event in poll.poll(200):
            source = sources[number]
            if source is self.child:
                if self.child.pipe is not None:
                    self.child.pass_on()
            elif source == self.wake_read:
                os.read(self.wake_read, 4096)
            elif self.coordinator and source is self.coordinator.listener:
                accepts = True
            elif source.open:
                if event & select.POLLOUT:
                    source.flush()
                if source.open and event & ~select.POLLOUT:
                    self.hear(source)
        if accepts:
            # Those that are connected go first: a new connection can push out one that has not been heard.
            self.coordinator.accept()
        if self.asked_to_leave:
            self.leave()
        self.reap()
        self.keep_in_touch()
        if self.coordinator:
            self.coordinator.tick()
        if self.kill_at and time.monotonic() > self.kill_at:
            self.kill_at = None
            self.child.kill()

    def hear(self, wire):
        if wire is self.wire:
            for message in wire.receive():
                self.obey(message)
        else:
            self.coordinator.hear(wire)

    def keep_in_touch(self):
        now = time.monotonic()
        if self.wire and self.wire.open and now - self.wire.heard > self.options.patience:
            self.wire.close()
        if self.wire and not self.wire.open and self.wire.closed_at and not self.wire.trusted:
            # It was not rank 0, or the token differs: without a pause this would never rest.
            self.connect_at = max(self.connect_at, self.wire.closed_at + 1)
        if self.wire and self.wire.trusted:
            self.refusals = 0
        if self.found:
            self.report_refused(now)
            self.wire = Wire(self.found.pop(), self.token, self.schema, False)
            self.connecting, self.alive_at = False, now + self.options.alive
            told = self.last or {"code": 0, "memory": False}
            self.wire.send(
                kind="hello", run=self.options.run, rank=self.options.rank, pod=self.options.pod, state=self.state,
                attempt=self.attempt, failed=self.failed, first_start=self.first_start,
                failures=min(self.options.failures, self.options.retries + 1),
                code=told["code"], memory=told["memory"],
            )  # fmt: skip
        elif not (self.connecting or self.leaving or now < self.connect_at or self.wire and self.wire.open):
            self.connecting = True
            threading.Thread(target=self.connect, daemon=True).start()
        elif self.wire and self.wire.open and now > self.alive_at:
            self.alive_at = now + self.options.alive
            self.wire.send(kind="alive", quiet=now - self.child.told if self.child else 0.0)

    def report_refused(self, now):
        """Says once a minute that rank 0 refuses the token. One refusal can also be a rank 0 that ends."""
        last = self.wire
        self.refusals += 1 if last and last.key is not None and not last.trusted else 0
        if self.refusals > 1 and (self.refused_at is None or now - self.refused_at > 60):
            say("rank 0 refuses the token of this pod; restart all ranks of the job with `gpuctl restart`")
            self.refused_at = now

    def connect(self):
        address = "localhost" if self.coordinator else self.options.host
        while True:
            try:
                self.found.append(socket.create_connection((address, self.options.port), timeout=5))
                os.write(self.wake_write, b".")
                return
            except OSError:
                time.sleep(1)

    def obey(self, message):
        kind = message.get("kind")
        if kind == "start" and not self.leaving:
            self.attempt, self.failed, self.first_start = message["attempt"], message["failed"], message["first_start"]
            self.waiting_since, self.stopped = None, False
            who = "all %d ranks start" % self.options.ranks if self.options.ranks > 1 else "it starts"
            count = " (%d of %d retries used)" % (message["used"], self.options.retries) if self.attempt > 1 else ""
            say("attempt %d: %s%s" % (self.attempt, who, count))
            clean_shared_memory()
            self.child, self.ended_at = Child(self.options.command, self.attempt, bool(self.options.hang_timeout)), None
            self.state, self.last, self.kill_at = "running", None, None
            if self.child.ended is not None:
                self.tell_end()
        elif kind == "stop":
            self.failed = message["failed"]
            say("%s; this rank stops and waits for all to start again" % message["text"])
            self.stop()
        elif kind == "finish":
            self.exit_at, self.code = time.monotonic(), 0
        elif kind == "end" and self.exit_at is None:
            is_culprit = message["rank"] == self.options.rank
            # Alone, its own code would be tried again by the Job controller.
            is_own = is_culprit and self.options.ranks > 1 and message["code"] not in (FAILED, NOT_PLACED)
            self.code = message["code"] if is_own else FAILED
            # The rank that failed goes first: its exit code is the training's.
            self.exit_at = time.monotonic() + (0.0 if is_culprit else 1.5)
            self.write_termination_message(message["reason"], message["text"])
            self.stop()

    def write_termination_message(self, reason, text):
        say(text)
        try:
            with open("/dev/termination-log", "w", errors="replace") as file:
                file.write("gpuctl/%s: %s" % (reason, text))
        except OSError:
            pass

    def stop(self):
        self.stopped = True
        if self.state == "done":
            self.state = "idle"
        if self.waiting_since is None:
            self.waiting_since = time.monotonic()
        if self.child and self.child.ended is None and self.kill_at is None:
            self.child.signal(signal.SIGTERM)
            self.kill_at = time.monotonic() + self.options.grace

    def ask_to_leave(self, *_):
        # A handler runs in the middle of anything; `turn` acts on it.
        self.asked_to_leave = True

    def leave(self):
        """The pod is to end: the peers hear of it, so that they save and wait instead of failing."""
        if not self.leaving:
            self.leaving = True
            if self.wire and self.wire.open:
                self.wire.send(kind="leaving")
            self.stop()

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.child and pid == self.child.pid:
                self.reap_child(status)

    def reap_child(self, status):
        child, self.ended_at = self.child, time.monotonic()
        child.ended = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        child.process.returncode = child.ended
        child.kill()
        while child.pipe is not None and child.pass_on():
            pass
        child.close_pipe()
        self.kill_at = None
        self.tell_end()

    def tell_end(self):
        child, code = self.child, self.child.ended
        kills = killed_for_memory()
        memory = code != 0 and child.kills is not None and kills is not None and kills > child.kills
        # What ends well because it was told to is not done.
        self.state, self.last = "done" if code == 0 and not self.stopped else "idle", {"code": code, "memory": memory}
        if self.wire and self.wire.open:
            since = time.monotonic() - self.ended_at if self.ended_at else 0.0
            self.wire.send(kind="ended", attempt=self.attempt, code=code, memory=memory, since=since)

    def over(self):
        """Returns the exit code when this rank has nothing left to do."""
        now, runs = time.monotonic(), self.child is not None and self.child.ended is None
        limit = self.options.gang_timeout
        if runs:
            return None
        if self.leaving:
            # Without the others this rank is not done, whatever its command says.
            return 143 if self.exit_at is None else self.code
        if self.exit_at is not None and now >= self.exit_at:
            if self.coordinator and not self.coordinator.is_over():
                return None
            return self.code
        if limit and self.waiting_since is not None and now - self.waiting_since > limit:
            self.write_termination_message("GangTimeout", "the ranks were not all there after %s (`job.gang_timeout`)" % span(limit))
            return NOT_PLACED
        return None


def options():
    parser = argparse.ArgumentParser(description="runs one rank of a training")
    parser.add_argument("--run", default="", help="the same for all ranks of a training, and for no other")
    parser.add_argument("--token", required=True, help="file with the token of this training")
    parser.add_argument("--pod", default="", help="what tells this pod from an earlier one of the rank")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="where rank 0 is")
    parser.add_argument("--port", type=int, required=True, help="where rank 0 coordinates")
    parser.add_argument("--retries", type=int, default=0)
    parser.add_argument("--failures", type=lambda text: int(text or 0), default=0, help="failed pods of this rank")
    parser.add_argument("--grace", type=float, default=60, help="seconds between SIGTERM and SIGKILL")
    parser.add_argument("--gang-timeout", type=float, default=0, help="seconds to wait for all ranks")
    parser.add_argument("--hang-timeout", type=float, default=0, help="seconds without a line from any rank")
    parser.add_argument("--max-runtime", type=float, default=0, help="seconds for all attempts together")
    parser.add_argument("--patience", type=float, default=30, help="seconds without a sign of life of a rank")
    parser.add_argument("--settle", type=float, default=2, help="seconds in which failures are one failure")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    found = parser.parse_args()
    found.alive = min(5.0, found.patience / 4)
    found.command = found.command[1:] if found.command[:1] == ["--"] else found.command
    if not found.command:
        parser.error("no command")
    return found


def read_token(path):
    """Reads the token that all ranks of this training share."""
    try:
        with open(path, "rb") as file:
            token = file.read(4096).strip()
    except OSError as error:
        token = b""
        say("cannot read the token of this training: %s" % error)
    if len(token) < 32:
        say("the token of this training is missing: submit it with `gpuctl create`, which makes the Secret")
        sys.exit(FAILED)
    return token


def adopt_orphans():
    """Makes orphans of the command children of this process where it is not the container's first."""
    if os.getpid() != 1:
        try:
            import ctypes

            ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        except (ImportError, OSError, AttributeError):
            pass


def allow_many_files(wanted):
    """Rank 0 has a connection to every rank."""
    try:
        import resource

        now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if now < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), most))
    except (ImportError, OSError, ValueError):
        pass


if __name__ == "__main__":
    adopt_orphans()
    found = options()
    if found.rank == 0:
        allow_many_files(2 * found.ranks + 256)
    sys.exit(Rank(found).run())
