import os

import ray

ray.init(address="auto")


@ray.remote(num_gpus=1)
def where():
    return ray.util.get_node_ip_address(), ray.get_gpu_ids()


print(ray.get([where.remote() for _ in range(int(os.environ["WORLD_SIZE"]))]))
