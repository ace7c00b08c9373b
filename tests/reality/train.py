# Fits a line with DistributedDataParallel over gloo. Saves a checkpoint every ten steps, and
# resumes from the checkpoint given by `--resume`.
import argparse, os, signal, sys, time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--resume")
options = parser.parse_args()
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
step = 0
if options.resume:
    state = torch.load(options.resume)
    model.load_state_dict(state["model"])
    step = state["step"]
    print(f"rank {rank} resumed from step {step}", flush=True)
parallel = DistributedDataParallel(model)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))


def save():
    if rank == 0:
        place = os.environ["CHECKPOINT_PATH"]
        os.makedirs(place, exist_ok=True)
        torch.save({"model": model.state_dict(), "step": step}, f"{place}/.{step}.pt")
        os.replace(f"{place}/.{step}.pt", f"{place}/step-{step:05}.pt")


fault = os.environ.get("FAULT") if not options.resume else None
while step < options.steps:
    x = torch.rand(64, 1) * 2 - 1
    loss = ((parallel(x) - (3 * x + 1)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if step % 10 == 0:
        save()
        if rank == 0:
            print(f"step {step}/{options.steps} loss={loss.item():.5f} world={world}", flush=True)
    if step == 35 and fault == f"exit-{rank}":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == 35 and fault == f"hang-{rank}":
        time.sleep(3600)
    if step == 35 and fault == f"memory-{rank}":
        eaten = [bytearray(os.urandom(1 << 20) * 64) for _ in range(64)]
    if told:
        print(f"rank {rank} told to end at step {step}", flush=True)
        sys.exit(143)
    time.sleep(0.05)
dist.barrier()
print(f"rank {rank} done: slope {model.weight.item():.3f}", flush=True)
