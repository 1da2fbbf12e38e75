"""Lab 06 once more, in another style: limits in place of warm-ups, tags, and
receives that are all posted before the first action."""

from typing import NamedTuple

from torch import autograd, empty_like
from torch.distributed import (
    get_process_group_ranks,
    get_rank,
    irecv,
    isend,
)


class Action(NamedTuple):
    kind: str
    micro_batch: int
    chunk: int = 0


def limited(forwards, backwards, most):
    """A forward wherever fewer than `most` are held."""
    actions, begun, ended = [], 0, 0
    while ended < len(backwards):
        if begun < len(forwards) and begun - ended < most:
            actions.append(Action("F", *forwards[begun]))
            begun += 1
        else:
            actions.append(Action("B", *backwards[ended]))
            ended += 1
    return actions


def gpipe_schedule(stage, stages, micro_batches):
    """The last one comes back first."""
    numbers = [(number, 0) for number in range(micro_batches)]
    return limited(numbers, numbers[::-1], micro_batches)


def one_f_one_b_schedule(stage, stages, micro_batches):
    numbers = [(number, 0) for number in range(micro_batches)]
    return limited(numbers, numbers, stages - stage)


def interleaved_schedule(stage, stages, micro_batches, chunks):
    """One forward ahead of the next stage: least memory, if messages take no
    time."""
    forwards, backwards = [], []
    for place in range(micro_batches * chunks):
        begin, within = divmod(place, stages * chunks)
        chunk, number = divmod(within, stages)
        number += begin * stages
        forwards.append((number, chunk))
        backwards.append((number, chunks - 1 - chunk))
    return limited(forwards, backwards, chunks * stages - stage)


class PipelineStage:
    def __init__(self, parts, loss_fn, boundary, group=None):
        ranks = get_process_group_ranks(group)
        mine = ranks.index(get_rank())
        turned = ranks[mine:] + ranks[:mine]
        self.after, self.before = turned[1 % len(ranks)], turned[-1]
        self.numbers = range(mine, len(ranks) * len(parts), len(ranks))
        self.last = len(ranks) * len(parts) - 1
        self.parts, self.loss_fn = parts, loss_fn
        self.boundary, self.group = boundary, group

    def run(self, schedule, inputs=(), targets=()):
        schedule = list(schedule)
        coming = {action: self.expected(*action) for action in schedule}
        sent, kept, losses = [], {}, {}
        for action in schedule:
            kind, number, chunk = action
            part = self.numbers[chunk]
            arrived = coming.pop(action)
            if arrived:
                arrived[1].wait()
            if kind == "F":
                x = arrived[0].requires_grad_() if arrived else inputs[number]
                y = self.parts[chunk](x)
                if part == self.last:
                    y = self.loss_fn(y, targets[number])
                    losses[number] = y.item()
                else:
                    out = y.detach().clone()
                    sent.append(self.give(out, self.after, "F", number, part))
                kept[number, chunk] = x, y
            else:
                x, y = kept.pop((number, chunk))
                autograd.backward([y], [arrived[0] if arrived else None])
                if part:
                    out = x.grad.clone()
                    sent.append(self.give(out, self.before, "B", number, part))
        for work, _ in sent:
            work.wait()
        return [losses[number] for number in sorted(losses)]

    def tag(self, kind, number, part):
        """Of a message from that part."""
        return 2 * (number * (self.last + 1) + part) + (kind == "B")

    def give(self, out, to, *what):
        return isend(out, to, group=self.group, tag=self.tag(*what)), out

    def expected(self, kind, number, chunk):
        """A buffer, and the receive that fills it; none at the ends."""
        part = self.numbers[chunk]
        source, begin = (part - 1, 0) if kind == "F" else (part + 1, self.last)
        if part == begin:
            return None
        rank = self.before if kind == "F" else self.after
        buffer, tag = empty_like(self.boundary), self.tag(kind, number, source)
        return buffer, irecv(buffer, rank, group=self.group, tag=tag)
