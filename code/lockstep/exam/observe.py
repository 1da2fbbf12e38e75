"""What the exam sees of a trainer, from inside its processes.

Only torch and the standard library are imported here: this module runs in the
environment of the trainer that is examined.
"""

import ctypes
import hashlib
import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from .env_vars import ADDRESS, OVERFLOWS

LEFT_ALONE = 113  # exit code of a process whose examiner is gone
Ids = Callable[..., Iterable[int]]


# --8<-- [start:observe]
def observe(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    ids: Ids | None = None,
    **states: Any,
) -> None:
    """Let the exam see what `model` is trained on; what it is evaluated on does
    not count. Outside an exam, nothing.

    `optimizer`: whose steps count; by default those of any optimizer. If
        several share the model's parameters, the one that steps last; give the
        others as `states`.
    `ids`: gets what the model's forward gets, and returns an integer for each
        sample in it. By default that is a hash of the sample's row in the first
        tensor, which needs rows that are distinct and always the same. With
        duplicates, random augmentation, or padding that depends on the batch,
        pass the samples' numbers through the model's forward, and return them.
    `states`: whatever else must survive a restart and has a `state_dict`, such
        as `ema=ema`.

    A second call for the same model adds to what the first one said.
    """
    # --8<-- [end:observe]
    if model in _observed:
        observer = _observed[model]
        observer.optimizer = optimizer or observer.optimizer
        observer.states.update(states)
    elif ADDRESS in os.environ:
        observer = Observer(model, optimizer, ids or hashed, states)
        _observed[model] = observer


_observed: dict[nn.Module, "Observer"] = {}


class Observer:
    """Tells the examiner of each step, and does what it answers."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | None,
        ids: Ids,
        states: dict[str, Any],
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.ids, self.states = ids, states
        self.pending: list[int] = []  # trained on, but in no step yet
        self.passes: list[int] = []  # distinct samples in each forward pass
        self.pause = 0  # before this forward pass of a step, tell and wait
        self.before: dict[str, Any] = {}
        self.entering: dict[str, Any] = {}
        self.sizes: dict[str, dict[str, list[float]]] = {}  # norms
        self.drew: set[int] = set()  # from which generators
        self.stepped: Optimizer | None = None  # whose step was told
        self.scaler: Any = None
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(os.environ[ADDRESS])
        self.answers = self.connection.makefile()
        model.register_forward_pre_hook(
            torch.compiler.disable(self.on_forward), with_kwargs=True
        )
        model.register_forward_hook(torch.compiler.disable(self.on_output))
        register_optimizer_step_pre_hook(self.on_step)
        register_optimizer_step_post_hook(self.on_stepped)
        watch_scaler(self)

    def __deepcopy__(self, _: Any) -> "Observer":
        """A copy of the model, such as an average of its weights, is not what
        is trained."""
        return self

    def on_forward(
        self, module: nn.Module, args: tuple, kwargs: dict[str, Any]
    ) -> None:
        """Note the samples; before a step's first ones, all that there is."""
        if module is not self.model:
            return
        if not (module.training and torch.is_grad_enabled()):
            return
        if not self.pending:
            states = {
                name: [*flat(state.state_dict())]
                for name, state in self.states.items()
            }
            saved, _ = buffers(self.model)
            self.before = {
                "buffers": digest(saved.values()),
                "random": random_states(),
                "states": {n: digest(state) for n, state in states.items()},
            }
            self.sizes = {
                "buffers": {"all": norms(saved.values())},
                "states": {n: norms(state) for n, state in states.items()},
            }
        if self.pause == len(self.passes) + 1:
            self.pause = 0
            self.ask({"event": "paused", "rank": who()[0]})
        ids = [int(i) for i in self.ids(*args, **kwargs)]
        self.pending += ids
        self.passes.append(len({*ids}))
        self.random = random_states()

    def on_output(self, module: nn.Module, *_: Any) -> None:
        """From which generators the forward pass has drawn: where dropout is
        drawn on a GPU, a loader may draw from the CPU's."""
        if module.training and self.pending:
            states = zip(self.random, random_states(), strict=False)
            self.drew |= {k for k, (a, b) in enumerate(states) if a != b}

    def on_step(self, optimizer: Optimizer, *_: Any) -> None:
        """The last moment before a step; or before its forward passes too,
        where they run in a closure. Weights are read here, since in a forward
        pass FSDP has gathered some of them."""
        if not self.entering:
            self.entering = {"weights": digest(self.model.parameters())}
        if self.optimizer in (None, optimizer):
            self.entering |= {
                "optimizer": digest(flat(kept(optimizer))),
                "rates": [float(g["lr"]) for g in optimizer.param_groups],
                "sizes": self.sizes | {"optimizer": moments(optimizer)},
            }

    def on_stepped(self, optimizer: Optimizer, *_: Any) -> None:
        """The step has counted. RuntimeError if the one before was told too
        early, since another optimizer of the same weights had yet to step."""
        if not self.pending:  # a step without samples, as DCP takes one
            self.entering = {}
        if self.counts(optimizer):
            self.stepped = optimizer
            # A fused optimizer is called all the same, and skips in its kernel.
            if getattr(optimizer, "found_inf", 0):
                return
            saved, filled = buffers(self.model)
            self.tell(
                "step",
                after=digest(self.model.parameters()),
                norms=norms(self.model.parameters()),
                left={
                    "optimizer": digest(flat(kept(optimizer))),
                    "buffers": digest(saved.values()),
                    "filled": {
                        name: [*buffer.shape, digest([buffer])]
                        for name, buffer in filled.items()
                    },
                },
            )
        elif self.stepped not in (None, optimizer) and not self.optimizer:
            mine = {*map(id, self.model.parameters())}
            groups = optimizer.param_groups
            if any(id(p) in mine for g in groups for p in g["params"]):
                raise RuntimeError(
                    "two optimizers step this model's weights: tell the exam"
                    " which one is the last, observe(model, optimizer)"
                )

    def counts(self, optimizer: Optimizer) -> bool:
        """Whether a step of `optimizer` is one of this model's."""
        return bool(self.pending) and self.optimizer in (None, optimizer)

    def on_scale(self, scaler: Any) -> None:
        """The gradient scaler has decided on its step: skipped, or not."""
        if self.pending:
            self.tell("skipped")

    def tell(self, event: str, **more: Any) -> None:
        """Send what was trained on; then do as the examiner says."""
        ids, self.pending = self.pending, []
        passes, self.passes = self.passes, []
        before, self.entering = self.before | self.entering, {}
        rank, world = who()
        scale, scaler = None, {}
        if self.scaler:
            scale, scaler = self.scaler.get_scale(), self.scaler.state_dict()
        record = {
            "event": event, "rank": rank, "world": world,
            "ids": ids, "passes": passes, "drew": sorted(self.drew),
            "before": before,
            "scale": scale, **more,
            "scaler": {
                n: v for n, v in scaler.items() if isinstance(v, int | float)
            },
        }  # fmt: skip
        self.ask(record)

    def ask(self, record: dict[str, Any]) -> None:
        """Send something to the examiner, and do as it answers."""
        try:
            self.connection.sendall(json.dumps(record).encode() + b"\n")
            order = self.next_order()
            if order["do"] == "hang":
                self.next_order()  # none comes: the examiner ends this process
            self.pause = order.get("pause", 0)
            obey(order)
        except (OSError, ValueError):  # the examiner is gone
            os._exit(LEFT_ALONE)

    def next_order(self) -> dict[str, Any]:
        """Wait for the examiner's next order.

        Raises:
            ValueError: the connection was closed.
        """
        return json.loads(self.answers.readline())


def obey(order: dict[str, Any]) -> None:
    """Go on; or write no file of more than so many bytes, and be refused (as
    by a full disk), killed in the middle of the write, or held in it."""
    if order["do"] in ("refuse", "tear", "stall"):
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        libc = ctypes.CDLL(None)  # any thread may ask it
        if order["do"] == "tear":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            libc.signal(int(signal.SIGXFSZ), 0)
        elif order["do"] == "stall":  # the handler waits for another signal
            libc.signal(int(signal.SIGXFSZ), libc.pause)
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], hard))


def watch_scaler(observer: Observer) -> None:
    """Be told by every gradient scaler that is in use; and let the first steps
    overflow, if the examiner wants the scale to fall."""
    kind = torch.amp.GradScaler
    scale, update = kind.scale, kind.update
    left = int(os.environ.get(OVERFLOWS, "0"))

    def scaled(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = scale(self, *args, **kwargs)
        if self.is_enabled():
            observer.scaler = self
            if left > 0:
                return torch.utils._pytree.tree_map(
                    lambda loss: loss * torch.inf, found
                )
        return found

    def updated(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal left
        if self.is_enabled():
            left -= 1
            observer.on_scale(self)
        update(self, *args, **kwargs)

    kind.scale, kind.update = scaled, updated  # type: ignore[method-assign]


def who() -> tuple[int, int]:
    """This process's rank and the world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    env = os.environ
    return int(env.get("RANK", 0)), int(env.get("WORLD_SIZE", 1))


def local(value: Tensor) -> Tensor:
    """This rank's part of a sharded tensor; any other as it is."""
    part = getattr(value, "to_local", None)
    return (part() if part else value).detach()


def digest(values: Iterable[Any]) -> str:
    """Of tensors, bit by bit, and of plain values."""
    found = hashlib.blake2b(digest_size=8)
    for value in values:
        if isinstance(value, Tensor):
            # A copy: FSDP frees what it has gathered, and what NumPy has seen
            # it could not.
            value = local(value).to("cpu", copy=True).contiguous()
            found.update(f"{value.dtype}{[*value.shape]}".encode())
            found.update(value.flatten().view(torch.uint8).numpy().tobytes())
        else:
            found.update(repr(value).encode())
    return found.hexdigest()


def flat(value: Any) -> Iterable[Any]:
    """The tensors and plain values of a state, in a fixed order."""
    if isinstance(value, dict):
        for key in sorted(value, key=repr):
            yield repr(key)
            yield from flat(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flat(item)
    else:
        yield value


def norms(values: Iterable[Any]) -> list[float]:
    """Return the norm of each tensor among these values."""
    tensors = [local(v) for v in values if isinstance(v, Tensor)]
    return [float(t.double().norm()) for t in tensors]


def buffers(model: nn.Module) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return a model's buffers by name: those that a checkpoint holds, and
    others (`persistent=False`), which a forward pass may fill."""
    saved: dict[str, Tensor] = {}
    others: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        left_out = module._non_persistent_buffers_set
        for name, buffer in module._buffers.items():
            if buffer is not None:
                where = others if name in left_out else saved
                where[f"{path}.{name}"] = buffer
    return saved, others


def kept(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Return what an optimizer keeps for each parameter, in their order."""
    return [
        optimizer.state.get(p, {})
        for group in optimizer.param_groups
        for p in group["params"]
    ]


def moments(optimizer: Optimizer) -> dict[str, list[float]]:
    """Return the norms of what an optimizer keeps: by its name, of each
    parameter in their order."""
    found: dict[str, list[float]] = {}
    for state in kept(optimizer):
        for name, value in state.items():
            found.setdefault(str(name), []).extend(norms([value]))
    return found


def random_states() -> list[str]:
    """Of torch's generators, which draw dropout, in a fixed order."""
    return [digest([state]) for state in generators()]


def generators() -> list[Tensor]:
    """Their states: the CPU's, then those of GPUs that are in use."""
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():
        states += torch.cuda.get_rng_state_all()
    return states


def hashed(*args: Any, **kwargs: Any) -> list[int]:
    """A number for each sample: a hash of its part of the first tensor;
    TypeError if there is none."""
    values = [*args, *kwargs.values()]
    first = next((v for v in values if isinstance(v, Tensor)), None)
    if first is None:
        raise TypeError(
            "the model is given no tensor to number samples by: observe(model,"
            " ids=…) numbers them"
        )
    return [int(digest([row]), 16) for row in first]
