"""Lab B5 once more, in another style: sums over lists of pairs, a determinant
for the hands, QR with its signs put right, and a table for the check."""

import copy

import torch
from torch import nn


def pairs(n):
    """All (i, j) but i = j."""
    i, j = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    other = i != j
    return i[other], j[other]


class EGNN(nn.Module):
    def __init__(self, features, hidden=16):
        super().__init__()
        self.edge = nn.Sequential(
            nn.Linear(2 * features + 1, hidden), nn.Tanh()
        )
        self.pull = nn.Linear(hidden, 1)
        self.node = nn.Sequential(
            nn.Linear(features + hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, features),
        )

    def heard(self, h, x):
        i, j = pairs(len(h))
        apart = x[j] - x[i]
        squared = (apart * apart).sum(1, keepdim=True)
        said = torch.hstack([h[i], h[j], 1 / (1 + squared)])
        return i, apart, self.edge(said)

    def forward(self, h, x):
        i, apart, said = self.heard(h, x)
        step = torch.zeros_like(x).index_add(0, i, apart * self.pull(said))
        sums = said.new_zeros(len(h), said.shape[1]).index_add(0, i, said)
        return h + self.node(torch.hstack([h, sums])), x + step


class ChiralEGNN(EGNN):
    def __init__(self, features, hidden=16):
        super().__init__(features, hidden)
        self.frame = nn.Linear(hidden, 3)
        self.hand = nn.Parameter(torch.ones(features))

    def forward(self, h, x):
        i, apart, said = self.heard(h, x)
        legs = torch.einsum("pv,px->pvx", self.frame(said), apart)
        frames = legs.new_zeros(len(h), 3, 3).index_add(0, i, legs)
        h, x = super().forward(h, x)
        return h + torch.linalg.det(frames)[:, None].tanh() * self.hand, x


def rotations(count, seed):
    torch_random = torch.Generator()
    torch_random.manual_seed(1000 + seed)
    noise = torch.randn(
        (count, 3, 3), dtype=torch.double, generator=torch_random
    )
    q, r = torch.linalg.qr(noise)
    q = q * torch.diagonal(r, 0, -2, -1).sign().unsqueeze(-2)
    return q * torch.linalg.det(q)[:, None, None]


def run(layer, h, x, dtype):
    with torch.inference_mode():
        layer = copy.deepcopy(layer).to(dtype)
        features, places = layer(h.to(dtype), x.to(dtype))
    return features.double(), places.double() - x.to(dtype).double()


def apart(one, other):
    worst = 0.0
    for a, b in zip(one, other, strict=True):
        scale = b.abs().max().item()
        worst = max(worst, (a - b).abs().max().item() / (scale or 1))
    return worst


def breaks(layer, h, x, seed=0):
    x = x.double()
    features, added = run(layer, h, x, torch.double)
    turn = rotations(1, seed)[0]
    order = torch.arange(len(x)).roll(2)
    order[:2] = order[:2].flip(0)
    results = {
        "translation": (
            run(layer, h, x + 30 * turn[1], torch.double),
            (features, added),
        ),
        "rotation": (
            run(layer, h, x @ turn, torch.double),
            (features, added @ turn),
        ),
        "permutation": (
            run(layer, h[order], x[order], torch.double),
            (features[order], added[order]),
        ),
        "mirror": (run(layer, h, -x, torch.double), (features, -added)),
    }
    return {name for name, both in results.items() if apart(*both) > 1e-8}


def tolerance(layer, h, x):
    return apart(*(run(layer, h, x, d) for d in (torch.float, torch.double)))
