"""What the walkthrough page says of the cut's next stage."""

import os
from contextlib import nullcontext

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from lockstep import interview
from tests import ranks


def a_clipped_step(shard: bool) -> list[list]:
    """The gradient's norm, then the weights after a step that clips it."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    where = {"store": ranks.store(), "rank": rank, "world_size": world}
    rank, world, device = interview.join(**where)
    cfg = interview.TrainConfig(dropout=0.0)
    data, _ = interview.toy()
    model, _ = interview.build(cfg)
    model = fully_shard(model) if shard else interview.wrap(model, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = cfg.global_batch_size
    for micro, own in enumerate(torch.arange(rank, batch, world).split(16)):
        _, x, y = data[own]
        if shard:
            model.set_requires_gradient_sync(micro == 1)
        with nullcontext() if shard or micro == 1 else model.no_sync():
            loss = cross_entropy(model(x), y, reduction="sum")
            (loss * world / batch).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.1)
    assert norm.item() > 0.1  # or nothing was clipped
    optimizer.step()
    weights = [w.detach() for w in model.parameters()]
    assert all(isinstance(w, DTensor) == shard for w in weights)
    whole = [w.full_tensor() if isinstance(w, DTensor) else w for w in weights]
    return [[norm.item()], *(w.tolist() for w in whole)]


def test_fsdp2_steps_as_ddp_does() -> None:
    """Same loss scale, same clipping; equal up to the order of additions."""
    plain, sharded = (
        ranks.run_ranks(2, a_clipped_step, shard)[0] for shard in (False, True)
    )
    for one, other in zip(plain, sharded, strict=True):
        near = {"rtol": 1e-5, "atol": 1e-7}
        torch.testing.assert_close(
            torch.tensor(other), torch.tensor(one), **near
        )
