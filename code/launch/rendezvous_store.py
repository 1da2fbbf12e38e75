"""A store for torchrun's rendezvous that dies with none of the hosts.

python code/launch/rendezvous_store.py PORT
"""

import signal
import sys

import torch.distributed as dist

store = dist.TCPStore(
    "0.0.0.0", int(sys.argv[1]), is_master=True, wait_for_workers=False
)
signal.pause()
