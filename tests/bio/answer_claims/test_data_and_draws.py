"""What answers of the biotech questions claim and no other test shows."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rdkit import Chem
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles
from rdkit.ML.Scoring.Scoring import CalcBEDROC
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from lockstep.bio.batches import attends, cut, lay
from lockstep.bio.datasets import chembl, nci
from lockstep.bio.masks_across_ranks import proteins
from lockstep.bio.metrics import bedroc, roc_auc
from lockstep.bio.molecules import fingerprints, tanimoto
from lockstep.bio.protein_lm import ProteinLM, Settings
from lockstep.bio.splits import fraction
from lockstep.bio.tokens import CHOSEN, HIDDEN, MASK, drawn, masked
from lockstep.experiments.studies import (
    batching,
    screening_metrics,
    sparse_labels,
)
from lockstep.experiments.studies.screening_metrics import shuffled
from lockstep.trainer.order import GlobalOrder
from lockstep.trainer.process import joined
from tests import ranks


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
    smiles, values = chembl().of("CHEMBL204_Ki")
    test = np.array([fraction(one, 0) >= 0.9 for one in smiles])
    x = bits(smiles)
    model = Ridge(50.0).fit(x[~test], values[~test])
    truth, guess = values[test].astype(float), model.predict(x[test])
    found = {}
    for world in (1, 8, 64, 128):
        parts = [slice(rank, None, world) for rank in range(world)]
        each = [scores(truth[part], guess[part]) for part in parts]
        found[world] = np.mean(each, 0)
    assert len(truth) == 272
    assert np.round(list(found.values()), 2).tolist() == [
        [0.79, 0.75],
        [0.78, 0.73],
        [0.73, 0.59],
        [0.69, -15.39],
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
    """Thrombin: of scaffolds that were not trained on, and of clusters whose
    members are alike to a center by 0.4 or more, six draws of each."""
    assays = chembl()
    column = assays.column("CHEMBL204_Ki")
    potent = shuffled(np.flatnonzero(column >= 8))[:400]
    weaker = shuffled(np.flatnonzero((column >= 7) & (column < 8)))[:300]
    never = shuffled(np.flatnonzero(np.isnan(column)))[:1200]
    rows = np.concatenate([potent, weaker, never])
    kind = np.repeat([0, 1, 2], [len(potent), len(weaker), len(never)])
    smiles = [assays.smiles[row] for row in rows]
    found = molecules(smiles)
    packed, x = fingerprints(found), csr_array(bits(smiles))
    near = tanimoto(packed, packed) >= 0.4
    centers = np.full(len(rows), -1)
    for row in range(len(rows)):
        if centers[row] < 0:
            centers[near[row] & (centers < 0)] = row

    def against(groups: list[str], seed: int) -> tuple[float, float]:
        """ROC-AUC against the never measured, and against weaker ones."""
        train = np.array([fraction(one, seed) < 0.7 for one in groups])
        fit = train & (kind != 1)
        model = LogisticRegression(C=0.05, max_iter=200)
        score = model.fit(x[fit], kind[fit] == 0).decision_function(x)
        held = [~train & ((kind == 0) | (kind == other)) for other in (2, 1)]
        other, weak = (roc_auc(kind[one] == 0, score[one]) for one in held)
        return other, weak

    by_scaffold = [MurckoScaffoldSmiles(mol=one) for one in found]
    by_cluster = [str(one) for one in centers]
    splits, clusters = (
        np.array([against(groups, seed) for seed in range(6)])
        for groups in (by_scaffold, by_cluster)
    )
    assert splits[0, 0] == pytest.approx(0.995, abs=0.004)
    assert splits.mean(0) == pytest.approx([0.98, 0.73], abs=0.01)
    assert clusters.mean(0) == pytest.approx([0.96, 0.63], abs=0.01)
    assert clusters.min(0) == pytest.approx([0.88, 0.54], abs=0.01)
    assert clusters.max(0) == pytest.approx([1.0, 0.69], abs=0.01)


def pairs(smiles: list[str]) -> Tensor:
    """How often letters follow each other, float32 [molecules, 512]."""
    found = []
    for one in smiles:
        letters = np.frombuffer(one.encode(), "u1").astype(int)
        follow = (31 * letters[:-1] + letters[1:]) % 512
        found.append(np.bincount(follow, minlength=512))
    return torch.from_numpy(np.log1p(np.stack(found)).astype("f4"))


@pytest.mark.usefixtures("one_thread")
def test_a_screen_is_perfect_before_the_first_step() -> None:
    """Potency of thrombin's ligands is learned from an output layer of zeros;
    the screen's actives are those with a pKi of 8 or more."""
    assays = chembl()
    column = assays.column(screening_metrics.TARGET)
    potent = np.flatnonzero(column >= screening_metrics.POTENT)
    others = np.flatnonzero(np.isnan(column))
    actives = np.arange(screening_metrics.LIBRARY) < screening_metrics.HIDDEN
    library = np.zeros(screening_metrics.LIBRARY, int)
    library[actives] = shuffled(potent)[: screening_metrics.HIDDEN]
    library[~actives] = shuffled(others)[: (~actives).sum()]
    train = np.setdiff1d(np.flatnonzero(~np.isnan(column)), library)
    x, screened = (
        pairs([assays.smiles[row] for row in rows]) for rows in (train, library)
    )
    y = torch.from_numpy(column[train] - column[train].mean())
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 1))
    last = model[-1]
    assert isinstance(last, nn.Linear)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    adam = torch.optim.Adam(model.parameters(), 1e-4)
    said, expected = [], []
    # Actives are on top of the list, and a stable sort leaves ties so.
    for step in range(2001):
        if step in (0, 200, 2000):
            with torch.no_grad():
                scores = model(screened)[:, 0].numpy()
            order = np.argsort(-scores, kind="stable")
            said.append(CalcBEDROC([[one] for one in actives[order]], 0, 20.0))
            expected.append(bedroc(actives, scores))
        here = torch.randint(len(y), (64,))
        loss = F.mse_loss(model(x[here])[:, 0], y[here])
        adam.zero_grad()
        loss.backward()
        adam.step()
    assert said == pytest.approx([1, 0.28, 0.43], abs=0.01)
    assert expected == pytest.approx([0.051, 0.28, 0.43], abs=0.01)


def test_three_sorts_of_a_constant_score() -> None:
    """BEDROC of 30 actives, first of 15,000 in the file."""
    places = np.arange(15_000)
    scores = np.zeros(len(places))
    for order, said in (
        (sorted(places, key=scores.__getitem__, reverse=True), 1),
        (np.argsort(scores, kind="stable")[::-1], 0),
    ):
        found = CalcBEDROC([[place < 30] for place in order], 0, 20.0)
        assert found == pytest.approx(said, abs=1e-9)
    draw = np.random.default_rng(0).permutation

    def shuffled(times: int, actives: int = 30, alpha: float = 20) -> Any:
        labels = places < actives
        return np.array(
            [bedroc(labels, draw(places), alpha) for _ in range(times)]
        )

    few, more, sharp = shuffled(400), shuffled(99, 300), shuffled(99, 30, 100)
    assert few.mean() == pytest.approx(0.051, abs=0.004)
    assert few.std() > 0.5 * few.mean()
    assert 1 / 40 < np.mean(few >= 0.10) < 1 / 10
    assert more.mean() == pytest.approx(0.060, abs=0.004)
    assert more.std() < 0.5 * few.std()
    assert more.max() < 0.10
    assert sharp.mean() < 0.02 < 2 * sharp.std()


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


@pytest.mark.weekly
def test_more_ranks_of_few_labels_do_not_average_the_error_out() -> None:
    two, eight = (
        sparse_labels.compare(sparse_labels.at_random, n, 1.0, 24)
        for n in (2, 8)
    )
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


@pytest.mark.weekly
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


@pytest.mark.weekly
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


# Packed rows

AS_TRAINED = 1 - CHOSEN * HIDDEN  # of tokens that ESM-2 was shown


class TokenDropout(nn.Module):
    """ESM-2's: a masked residue's embedding is zero, and others are scaled by
    the share that the row shows; or, with owners, that their protein shows."""

    def __init__(self, table: nn.Module, owners: Tensor | None) -> None:
        super().__init__()
        self.table, self.owners = table, owners

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = tokens == MASK
        x = self.table(tokens).masked_fill(hidden[..., None], 0)
        share = hidden.double().mean(-1, keepdim=True).expand(tokens.shape)
        if self.owners is not None:
            sums = torch.bincount(self.owners, hidden[0].double())
            share = (sums / torch.bincount(self.owners))[self.owners][None]
        return (x * (AS_TRAINED / (1 - share))[..., None]).float()


class Read(NamedTuple):
    """What each protein of a row is made into, [residues, any] each."""

    embedded: list[Tensor]
    normed: list[Tensor]  # what the first block's attention reads
    logits: list[Tensor]


def read(row: list[Tensor], by_owner: bool = False) -> Read:
    """End to end: everyone attends to its own, positions are from 0."""
    packed = lay(row, sum(map(len, row)))
    own = attends(packed.owners)

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, own)

    model = ProteinLM(Settings(layers=4), attend)
    owners = packed.owners if by_owner else None
    x = TokenDropout(model.embed, owners)(packed.tokens[None])
    model.embed = nn.Identity()  # type: ignore[assignment]
    with torch.no_grad():
        made = x[0], model.blocks[0].before(x)[0], model(x, packed.positions)
    lengths = [len(one) for one in row]
    return Read(*([*one.detach().split(lengths)] for one in made))


def off(packed: list[Tensor], row: list[Tensor], what: int) -> float:
    """The largest difference of a protein from itself alone, relative."""
    return max(
        float((one - alone).norm() / alone.norm())
        for one, protein in zip(packed, row, strict=True)
        for alone in read([protein])[what]
    )


def rows() -> dict[str, list[Tensor]]:
    """Packed: a protein beside another, beside its own design of which 30 of
    100 are masked, and copies with one mask each."""
    wild, other = (
        torch.from_numpy(one[:100].astype(np.int64)) for one in proteins()[2:4]
    )
    design, *scan = (wild.clone() for _ in range(11))
    design[
        torch.randperm(100, generator=torch.Generator().manual_seed(0))[:30]
    ] = MASK
    for number, one in enumerate(scan):
        one[10 * number] = MASK
    return {"plain": [wild, other], "design": [wild, design], "scan": scan}


@pytest.mark.usefixtures("one_thread")
def test_a_neighbors_masks_scale_a_protein() -> None:
    """Through a mask that is right, and where a pair without masks agrees."""
    found = {name: read(row) for name, row in rows().items()}
    apart = {
        name: [off(found[name][what], row, what) for what in range(3)]
        for name, row in rows().items()
    }
    assert max(apart["plain"]) < 1e-5
    assert max(apart["scan"]) < 1e-5
    wild, design = rows()["design"]
    shown = ~(design == MASK)
    turned_up, turned_down = (
        together[seen] / read([one]).embedded[0][seen]
        for together, one, seen in zip(
            found["design"].embedded,
            (wild, design),
            (torch.ones(100, dtype=torch.bool), shown),
            strict=True,
        )
    )
    assert turned_up.mean() == pytest.approx(1 / 0.85)  # 1.18
    assert turned_down.mean() == pytest.approx(0.7 / 0.85)  # 0.82
    assert max(turned_up.std(), turned_down.std()) < 1e-6
    # A norm takes the scale away, and the stream beside it keeps it.
    assert apart["design"][1] < 1e-4
    assert apart["design"][2] > 0.05
    again = read(rows()["design"], by_owner=True)
    assert off(again.logits, rows()["design"], 2) < 1e-5


def test_a_packed_rows_share_of_masks_is_not_its_proteins() -> None:
    """Crops of 100 residues, alone and in rows of ten: they differ by 3.6 %,
    at most 14 %; alone the scale spreads by 3.8 %, in a row by 1.1 %."""
    ids = np.arange(1000)
    draws = drawn(0, np.zeros_like(ids), ids, 100)
    share = (masked(proteins()[:1000], draws, 100).inputs == MASK).double()
    own = AS_TRAINED / (1 - share.mean(1))
    row = AS_TRAINED / (1 - share.view(100, 1000).mean(1))
    apart = row.repeat_interleave(10) / own - 1
    assert apart.square().mean().sqrt() == pytest.approx(0.036, abs=5e-4)
    assert apart.abs().max() == pytest.approx(0.14, abs=5e-3)
    assert own.std() == pytest.approx(0.038, abs=5e-4)
    assert row.std() == pytest.approx(0.011, abs=5e-4)


def test_a_packed_map_of_contacts_is_corrected_by_half() -> None:
    """ESM's average product correction takes the sum of the whole map."""

    def correction(seen: Tensor) -> Tensor:
        both = seen + seen.T
        return both.sum(1, True) * both.sum(0, True) / both.sum()

    seen = torch.rand(
        30, 30, generator=torch.Generator().manual_seed(0)
    ).softmax(1)
    packed = correction(torch.block_diag(seen, seen))[:30, :30]
    assert torch.allclose(packed, correction(seen) / 2)


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


@pytest.mark.weekly
def test_hybrid_shards_seeded_by_rank_are_copies_that_differ() -> None:
    """Four ranks draw a weight, each by a seed of its own, and `fully_shard`
    cuts it. Nothing is sent: every rank keeps its part of what it drew, so with
    hybrid sharding the two copies of a shard differ."""
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
