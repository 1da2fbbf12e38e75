"""Single operations: products by format and size, what moves bytes, attention,
the loss over a vocabulary, copies between host and GPU."""

from collections.abc import Callable
from functools import partial
from itertools import cycle
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from lockstep.experiments.gpu.clock import device, peak, queued, seconds, wait

Row = dict[str, Any]
BACKENDS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


def normal(*size: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Random numbers: zeros would run faster than data do."""
    return torch.randn(size, device=device()).to(dtype)


def scaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """In fp8 e4m3, and the scale that brings it back: of the whole matrix."""
    scale = x.abs().max().float() / torch.finfo(torch.float8_e4m3fn).max
    return (x / scale).to(torch.float8_e4m3fn), scale


def product(name: str, a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    """a @ b.T of two fp32 matrices, computed in a format."""
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    if name in ("fp32", "tf32"):
        return lambda: a @ b.T
    if name in ("bf16", "fp16"):
        kind = torch.bfloat16 if name == "bf16" else torch.float16
        x, y = a.to(kind), b.to(kind)
        return lambda: x @ y.T
    (x, x_scale), (y, y_scale) = scaled(a), scaled(b)
    return lambda: torch._scaled_mm(
        x, y.T, scale_a=x_scale, scale_b=y_scale, out_dtype=torch.bfloat16
    )


def formats(n: int = 8192) -> list[Row]:
    """A product of n × n matrices in each format: FLOP/s, and its error beside
    fp64's, on the first rows."""
    found = []
    a, b = (normal(n, n, dtype=torch.float32) for _ in range(2))
    right = a[:64].double() @ b.double().T
    for name in ("fp32", "tf32", "bf16", "fp16", "fp8"):
        try:
            call = product(name, a, b)
            wrong = (call()[:64].double() - right).norm() / right.norm()
        except (RuntimeError, NotImplementedError) as error:
            row: Row = {"format": name, "refused": str(error)[:200]}
        else:
            rate = 2 * n**3 / queued(call)
            row = {"format": name, "n": n, "flops_per_second": rate}
            row["error"] = wrong.item()
        found.append(row)
    torch.backends.cuda.matmul.allow_tf32 = False
    return found


def sizes(
    ns: tuple[int, ...] = (256, 512, 1024, 2048, 4096, 8192),
) -> list[Row]:
    """A bf16 product of n × n matrices: FLOP/s by n. FLOPs for each byte of
    the two operands and the result: n / 3."""
    found = []
    for n in ns:
        a, b = normal(n, n), normal(n, n)
        took = queued(partial(torch.mm, a, b), 50)
        found.append({"n": n, "flops_per_second": 2 * n**3 / took})
    return found


def rows(
    ms: tuple[int, ...] = (1, 8, 64, 256, 1024, 4096, 16384), n: int = 8192
) -> list[Row]:
    """A batch of m rows through one bf16 weight of n × n: with few rows, the
    time is that of reading the weight."""
    found = []
    weights = cycle([normal(n, n) for _ in range(4)])  # no cache holds them

    def product(x: Tensor) -> Tensor:
        return x @ next(weights).T

    for m in ms:
        took = queued(partial(product, normal(m, n)), 40)
        found.append(
            {
                "rows": m,
                "seconds": took,
                "flops_per_second": 2 * m * n**2 / took,
                "bytes_per_second": 2 * (n * n + 2 * m * n) / took,
            }
        )
    return found


def moved(tokens: int = 16384, hidden: int = 8192) -> list[Row]:
    """What computes little for each byte: bytes per second, counting each
    tensor read or written once."""
    x, y = normal(tokens, hidden), normal(tokens, hidden)
    weight, size = normal(hidden), x.numel() * 2
    norm = torch.compile(F.rms_norm)
    each: dict[str, tuple[int, Callable[[], object]]] = {
        "copy": (2 * size, lambda: y.copy_(x)),
        "add": (3 * size, lambda: torch.add(x, y)),
        "softmax": (2 * size, lambda: x.softmax(-1)),
        "norm, eager": (
            2 * size,
            lambda: F.rms_norm(x, (hidden,), weight, 1e-6),
        ),
        "norm, compiled": (2 * size, lambda: norm(x, (hidden,), weight, 1e-6)),
    }
    return [
        {"what": name, "bytes_per_second": count / queued(call)}
        for name, (count, call) in each.items()
    ]


def attention(
    lengths: tuple[int, ...] = (1024, 4096, 16384),
    heads: int = 32,
    head: int = 128,
) -> list[Row]:
    """Causal attention of one sequence, forward and backward: seconds, FLOP/s
    of the half that a causal mask leaves, and the peak beyond inputs."""
    found = []
    for s in lengths:
        for name, backend in BACKENDS.items():
            if name == "math" and s > 8192:
                continue  # its scores alone are 17 GB, several times
            qkv = [normal(1, heads, s, head).requires_grad_() for _ in range(3)]
            call = partial(attended, backend, qkv, True)
            row: Row = {"backend": name, "tokens": s}
            try:
                with peak() as held:
                    call()
                row |= {"peak": held.bytes, "seconds": seconds(call, 5, 1)}
            except RuntimeError as error:
                row["refused"] = str(error).splitlines()[0][:200]
            else:
                work = 3.5 * 2 * s * s * heads * head  # causal: half of 7
                row["flops_per_second"] = work / row["seconds"]
            found.append(row)
            del qkv, call
    return found


def attended(
    backend: SDPBackend,
    qkv: list[Tensor],
    causal: bool,
    bias: Tensor | None = None,
) -> None:
    """Forward and backward."""
    with sdpa_kernel(backend):
        q, k, v = qkv
        y = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal)
    y.backward(y.detach())
    for one in qkv:
        one.grad = None


def biased(
    n: int = 512, heads: int = 4, head: int = 32, lines: int = 512
) -> list[Row]:
    """Triangle attention: n queries on each of `lines` rows, with a bias by
    pair that learns. Which kernel takes it, with what peak."""
    found = []
    for name, backend in BACKENDS.items():
        qkv = [normal(lines, heads, n, head).requires_grad_() for _ in range(3)]
        bias = normal(1, heads, n, n).requires_grad_()
        row: Row = {"backend": name, "pairs": n}
        whole = bias.expand(lines, -1, -1, -1)
        try:
            with peak() as held:
                attended(backend, qkv, False, whole)
            call = partial(attended, backend, qkv, False, whole)
            row |= {"peak": held.bytes, "seconds": seconds(call, 3, 1)}
            row["learns"] = bias.grad is not None
        except RuntimeError as error:
            row["refused"] = str(error).splitlines()[0][:200]
        found.append(row)
        del qkv, bias, whole
    return found


def loss(s: int = 8192, hidden: int = 4096, vocab: int = 128256) -> list[Row]:
    """Llama 3 8B's output layer and loss: whole, in eight pieces that are
    computed again, and compiled. Seconds and peak, forward and backward."""

    def one(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        logits = F.linear(x, weight)
        return F.cross_entropy(logits.float(), y, reduction="sum")

    def pieces(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
        again = partial(checkpoint, one, use_reentrant=False)
        parts = zip(x.chunk(8), y.chunk(8), strict=True)
        return torch.stack([again(*part, weight) for part in parts]).sum()

    weight = (normal(vocab, hidden) * 0.02).requires_grad_()
    y = torch.randint(vocab, (s,), device=device())
    x = normal(s, hidden).requires_grad_()
    each = {"whole": one, "8 pieces": pieces, "compiled": torch.compile(one)}
    found = []
    for name, way in each.items():

        def step(way: Callable[..., Tensor] = way) -> None:
            way(x, y, weight).backward()
            x.grad = weight.grad = None

        step()  # compiles
        with peak() as held:
            step()
        found.append(
            {"how": name, "peak": held.bytes, "seconds": seconds(step, 3, 1)}
        )
    return found


def copies(size: int = 2**29) -> list[Row]:
    """Between host and GPU, from pageable and from pinned memory."""
    found = []
    far = torch.empty(size, dtype=torch.uint8, device=device())
    for pinned in (False, True):
        near = torch.ones(
            size,
            dtype=torch.uint8,
            pin_memory=pinned and torch.cuda.is_available(),
        )
        for to_gpu in (True, False):
            target, source = (far, near) if to_gpu else (near, far)
            copy = partial(target.copy_, source, non_blocking=True)
            took = seconds(copy, 5, 1)
            found.append(
                {
                    "to": "GPU" if to_gpu else "host",
                    "pinned": pinned,
                    "bytes_per_second": size / took,
                }
            )
    return found


def hidden_copy(size: int = 2**28, n: int = 8192, products: int = 16) -> Row:
    """A batch copied while the one before it is computed: seconds of both one
    after the other, and of both at once, from pageable and pinned memory."""
    a, b = normal(n, n), normal(n, n)
    far = torch.empty(size, dtype=torch.uint8, device=device())
    near = torch.ones(size, dtype=torch.uint8)
    pinned = near.pin_memory() if torch.cuda.is_available() else near
    side = torch.cuda.Stream() if torch.cuda.is_available() else None

    def compute() -> None:
        for _ in range(products):
            torch.mm(a, b)

    def both(source: Tensor) -> None:
        if side is None:
            far.copy_(source)
        else:
            with torch.cuda.stream(side):
                far.copy_(source, non_blocking=True)
        compute()

    def in_turn() -> None:
        far.copy_(pinned)
        wait()
        compute()

    return {
        "computing": seconds(compute),
        "copying": seconds(lambda: far.copy_(pinned)),
        "in turn": seconds(in_turn),
        "at once, pinned": seconds(lambda: both(pinned)),
        "at once, pageable": seconds(lambda: both(near)),
    }
