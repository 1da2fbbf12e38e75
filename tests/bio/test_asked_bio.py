"""What answers of the biotech questions claim and no other test shows."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rdkit import Chem
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from lockstep.bio.batches import cut
from lockstep.bio.datasets import chembl, nci
from lockstep.bio.design import Assay
from lockstep.bio.metrics import roc_auc
from lockstep.bio.molecules import fingerprints, tanimoto
from lockstep.bio.splits import fraction
from lockstep.bio.studies import batching, sparse
from lockstep.bio.studies.screens import shuffled
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import joined
from tests import ranks

from .test_design import SMALL, TRUTH, X


def molecules(smiles: list[str]) -> list[Chem.Mol]:
    """As written: without salts taken off, which takes a minute."""
    found = (Chem.MolFromSmiles(one) for one in smiles)
    return [one for one in found if one is not None]


def bits(smiles: list[str]) -> np.ndarray:
    packed = fingerprints(molecules(smiles))
    return np.unpackbits(packed, axis=1).astype("f4")


# Metrics


def scores(truth: np.ndarray, guess: np.ndarray) -> tuple[float, float]:
    """RMSE and R²."""
    errors = ((truth - guess) ** 2).sum()
    spread = ((truth - truth.mean()) ** 2).sum()
    return float((errors / len(truth)) ** 0.5), float(1 - errors / spread)


def test_r2_of_parts_falls_without_a_floor() -> None:
    """A ridge regression on fingerprints; ranks are dealt by turns."""
    smiles, values = chembl().of("CHEMBL233_Ki")
    test = np.array([fraction(one, 0) >= 0.9 for one in smiles])
    x = bits(smiles)
    model = Ridge(50.0).fit(x[~test], values[~test])
    truth, guess = values[test].astype(float), model.predict(x[test])
    found = {}
    for world in (1, 8, 64, 128):
        parts = [slice(rank, None, world) for rank in range(world)]
        each = [scores(truth[part], guess[part]) for part in parts]
        found[world] = np.mean(each, 0)
    assert len(truth) == 337
    assert np.round(list(found.values()), 2).tolist() == [
        [0.73, 0.69],
        [0.72, 0.68],
        [0.69, 0.38],
        [0.65, -4.04],
    ]


def test_which_purchases_an_equal_roc_auc_allows() -> None:
    """30 actives of 15,000: how many may be among the first 150."""

    def range_of(hits: int) -> tuple[float, float]:
        worst, best = np.zeros((2, 15_000), bool)
        worst[150 - hits : 150] = worst[15_000 - (30 - hits) :] = True
        best[:hits] = best[150 : 150 + 30 - hits] = True
        order = -np.arange(15_000)
        return roc_auc(worst, order), roc_auc(best, order)

    allowed = [
        k for k in range(30) if range_of(k)[0] <= 0.762 <= range_of(k)[1]
    ]
    assert (min(allowed), max(allowed)) == (0, 23)


def test_what_was_never_measured_is_told_by_its_series() -> None:
    """Thrombin: of scaffolds that were not trained on."""
    assays = chembl()
    column = assays.values[:, assays.targets.index("CHEMBL204_Ki")]
    potent = shuffled(np.flatnonzero(column >= 8))[:400]
    weaker = shuffled(np.flatnonzero((column >= 7) & (column < 8)))[:300]
    never = shuffled(np.flatnonzero(np.isnan(column)))[:1200]
    rows = np.concatenate([potent, weaker, never])
    kind = np.repeat([0, 1, 2], [len(potent), len(weaker), len(never)])
    smiles = [assays.smiles[row] for row in rows]
    scaffolds = [MurckoScaffoldSmiles(mol=one) for one in molecules(smiles)]
    train = np.array([fraction(one, 0) < 0.7 for one in scaffolds])
    x, fit = bits(smiles), train & (kind != 1)
    model = LogisticRegression(C=0.05, max_iter=200)
    score = model.fit(x[fit], kind[fit] == 0).decision_function(x)

    def against(other: int) -> float:
        held = ~train & ((kind == 0) | (kind == other))
        return roc_auc(kind[held] == 0, score[held])

    assert against(2) == pytest.approx(0.995, abs=0.004)
    assert against(1) == pytest.approx(0.81, abs=0.03)


# Splits


def test_the_two_largest_scaffolds_have_little_in_common() -> None:
    """Mean similarity of two molecules of the NCI's."""
    found = molecules(nci()[:2000])
    of = np.array([MurckoScaffoldSmiles(mol=one) for one in found], object)
    packed = fingerprints(found)
    near = tanimoto(packed, packed)
    off = ~np.eye(len(found), dtype=bool)

    def inside(scaffold: str) -> float:
        own = of == scaffold
        return float(near[own][:, own][off[own][:, own]].mean())

    names, counts = np.unique(of.astype(str), return_counts=True)
    largest = names[np.argsort(-counts)][:2]
    small = [n for n, c in zip(names, counts, strict=True) if 8 <= c < 40 and n]
    assert largest.tolist() == ["", "c1ccccc1"]
    assert np.sort(counts)[-3:] / len(of) == pytest.approx(
        [0.03, 0.21, 0.25], abs=0.01
    )
    assert inside("") == pytest.approx(0.13, abs=0.005)
    assert inside("c1ccccc1") == pytest.approx(0.15, abs=0.005)
    assert near[off].mean() == pytest.approx(0.09, abs=0.005)
    assert np.mean([inside(one) for one in small]) == pytest.approx(
        0.31, abs=0.02
    )


# Losses


def test_more_ranks_of_few_labels_do_not_average_the_error_out() -> None:
    two, eight = (sparse.compare(sparse.at_random, n, 1.0, 24) for n in (2, 8))
    assert eight.error > 1.2 * two.error


def empty_mask() -> tuple[float, bool]:
    """Rank 3 of four has molecules and no label: this rank's loss, and whether
    the gradient is a quarter of the sum of the three others'."""
    with joined(30, ranks.store()) as me:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        x, y = torch.randn(4, 8, 4), torch.randn(4, 8, 3)
        measured = torch.rand(4, 8, 3) < 0.3
        measured[3] = False

        def loss(net: nn.Module, rank: int) -> Tensor:
            mask = measured[rank]
            return F.mse_loss(net(x[rank])[mask], y[rank][mask])

        own = []
        for rank in range(3):
            grads = torch.autograd.grad(
                loss(model, rank), [*model.parameters()]
            )
            own.append(torch.cat([one.flatten() for one in grads]))
        ddp = DistributedDataParallel(model)
        said = loss(ddp, me.rank)
        said.backward()
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        found = torch.cat([grad.flatten() for grad in grads])
        right = torch.stack(own).sum(0) / 4
        close = torch.allclose(found, right, rtol=1e-4, atol=1e-7)
        return float(said.detach()), close


def test_an_indexed_empty_mask_is_nan_here_and_zero_everywhere() -> None:
    found = ranks.run_ranks(4, empty_mask)
    assert [np.isnan(said) for said, _ in found] == [False] * 3 + [True]
    assert all(close for _, close in found)  # so no weight becomes NaN


class Energy(nn.Module):
    """Of positions; its forward pass returns forces."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, places: Tensor) -> Tensor:
        places = places.requires_grad_()
        energy = self.last(torch.tanh(self.inner(places))).sum()
        (slope,) = torch.autograd.grad(energy, places, create_graph=True)
        return -slope


def forces_alone(find: bool) -> tuple[list[str], str, list[float]]:
    """Parameters without a gradient; what stopped it; the first step's
    weights."""
    with joined(30, ranks.store()) as me:
        torch.manual_seed(0)
        model = Energy()
        ddp = DistributedDataParallel(model, find_unused_parameters=find)
        descent = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(me.rank)
        said = ""
        first: list[float] = []
        none: list[str] = []
        try:
            for _ in range(2):
                ddp(torch.randn(5, 3)).square().mean().backward()
                named = model.named_parameters()
                none = [name for name, p in named if p.grad is None]
                descent.step()
                descent.zero_grad()
                first = first or model.inner.weight.flatten().tolist()
        except RuntimeError as error:
            said = str(error)
        return none, said, first


def test_forces_alone_leave_the_last_bias_without_a_gradient() -> None:
    one, other = ranks.run_ranks(2, forces_alone, False)
    assert one[0] == other[0] == ["last.bias"]
    assert "Expected to have finished reduction" in one[1]
    assert one[2] != other[2]  # the step before was each rank's own
    one, other = ranks.run_ranks(2, forces_alone, True)
    assert one[0] == ["last.bias"]
    assert one[1] == ""
    assert one[2] == other[2]


# Batches


def test_a_batch_of_few_long_ones_weighs_as_one_of_many() -> None:
    """The mean of batches' means, by molecule: lengths of 32,768."""
    lengths, plan = batching.lengths(), batching.planned(packed=False)
    ids = np.concatenate(plan)
    weight = np.concatenate([np.full(len(one), 1 / len(one)) for one in plan])
    weight *= len(ids) / weight.sum()
    long = lengths[ids] >= np.quantile(lengths[ids], 0.99)
    short = lengths[ids] <= np.quantile(lengths[ids], 0.1)
    assert len(ids) == 32_768
    assert weight.max() / weight.min() == pytest.approx(28.2)
    assert weight[long].mean() == pytest.approx(4.54, abs=0.01)
    assert weight[short].mean() == pytest.approx(0.69, abs=0.01)


def test_a_cut_tail_takes_half_of_their_epochs_from_the_shortest() -> None:
    """Eight ranks sort and cut shuffled shares of their own, longest first,
    and all stop with the first: over ten epochs."""
    lengths = batching.lengths()
    count = len(lengths)
    order = GlobalOrder(count, seed=0)
    missed = np.zeros(count)
    for epoch in range(10):
        ids = order(np.arange(epoch * count, (epoch + 1) * count))
        plans = []
        for rank in range(8):
            own = ids[rank::8]
            own = own[np.argsort(-lengths[own], kind="stable")]
            plans.append(cut(own, lengths, batching.BUDGET))
        steps = min(map(len, plans))
        for plan in plans:
            for batch in plan[steps:]:
                missed[batch] += 0.1
    assert missed.mean() == pytest.approx(0.010, abs=0.0005)
    by_length = np.argsort(lengths, kind="stable")
    shortest = by_length[: count // 100]
    assert missed[shortest].mean() == pytest.approx(0.54, abs=0.005)
    assert lengths[shortest].max() == 25
    assert missed[lengths == 20].mean() == pytest.approx(0.62, abs=0.005)
    assert not missed[by_length[count // 2 :]].any()


# Draws


def seeded_by_rank(hybrid: bool) -> list[list[float]]:
    """What each of four ranks has of a weight that each drew by its rank."""
    with joined(60, ranks.store()) as me:
        torch.manual_seed(me.rank)
        model = nn.Linear(2, 4, bias=False)
        shape = (2, 2) if hybrid else (4,)
        names = ("copies", "shards")[-len(shape) :]
        fully_shard(
            model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names)
        )
        weight: Any = model.weight
        own = weight.to_local().flatten().detach()
        every = [torch.empty_like(own) for _ in range(4)]
        dist.all_gather(every, own.contiguous())
        return [one.tolist() for one in every]


def test_hybrid_shards_seeded_by_rank_are_copies_that_differ() -> None:
    for hybrid in (False, True):
        found, *_ = ranks.run_ranks(4, seeded_by_rank, hybrid)
        drawn = []
        for rank in range(4):
            torch.manual_seed(rank)
            weight = nn.Linear(2, 4, bias=False).weight.detach()
            part = weight.chunk(2)[rank % 2] if hybrid else weight[rank]
            drawn.append(part.flatten().tolist())
        assert found == drawn  # nobody sent anything
    assert found[0] != found[2]  # both are the first half of the weight


# Plates


class Median(Assay):
    """Subtracts the median of a plate in place of its wild-type wells."""

    def read(
        self,
        truth: np.ndarray,
        plate: int,
        controls: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        raw = Assay(self.noise, self.drift, corrected=False)
        found = raw.read(truth, plate, controls, rng)
        return found - np.median(found)


def test_a_plates_median_takes_away_what_the_loop_has_won() -> None:
    """More than a drift takes that nobody corrects: means of four seeds."""

    def ended(assay: Assay) -> tuple[float, float]:
        runs = [SMALL.run("greedy", X, TRUTH, assay, s) for s in range(4)]
        last = [[run[-1].hits, run[-1].unseen] for run in runs]
        hits, rank = np.mean(last, 0)
        return round(hits), round(rank, 2)

    assert ended(Assay(drift=1.0)) == (86, 0.88)
    assert ended(Assay(drift=1.0, corrected=False)) == (82, 0.77)
    assert ended(Median(drift=1.0)) == (78, 0.74)
    assert ended(Median()) == (78, 0.74)  # where there was nothing to correct
