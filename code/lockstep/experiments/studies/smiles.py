"""A million real molecules on disk, and what a billion of them would cost.

    python -m lockstep.experiments.studies.smiles FOLDER

Fetches MOSES, prepares it with ChEMBL's and the NCI's molecules in FOLDER
unless that was done, measures formats, rates and order, and trains an epoch
that is killed in the middle. Half an hour on two cores. pyarrow, if it is
there, is measured beside the store.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rdkit import Chem, rdBase

from lockstep.bio.datasets import chembl, moses, nci
from lockstep.bio.smiles.prepare import canonical, prepare, unique
from lockstep.bio.smiles.scale import (
    after_fork,
    each,
    expected,
    merged,
    reads,
)
from lockstep.bio.smiles.store import Molecules
from lockstep.bio.smiles.tokens import Tokens
from lockstep.bio.smiles.train import STORE
from lockstep.experiments import markdown
from lockstep.experiments.benchmarks.time_to_first_batch import alone
from lockstep.experiments.markdown import in_bytes, measured, table
from lockstep.experiments.provenance import about, write
from lockstep.experiments.studies.smiles_streams import orders, trend
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.layout import WHITEBOARD, layout
from lockstep.trainer.extensions.audit import audit
from lockstep.trainer.order import GlobalOrder

RESULT = Path(__file__).with_name("smiles.json")
MOSES, BILLION, BATCH = 10**6, 10**9, 256
KEYED = 100_000  # molecules of which InChIKeys are computed
GROUP = 10_000  # rows of Parquet that are decoded together
# Decoders about as large as GP-MoLFormer (46.8 M, https://doi.org/
# 10.1039/d5dd00122f) and as the largest of Frey and others (over a billion,
# https://doi.org/10.1038/s42256-023-00740-3).
SMALL = {"layers": 12, "hidden": 768, "heads": 12, "ffn": 768, "vocab": 256}
LARGE = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 256}
MODELS = {"small": SMALL, "large": LARGE}
GPUS, PRICE = 8, 2.0  # of a node; an hour of one
Found = dict[str, Any]


def lines() -> list[str]:
    """All sources, one after another."""
    return moses()[:MOSES] + chembl().smiles + nci()


def prepared(folder: Path) -> Found:
    """Make the stores, or read how they were made."""
    said = folder / "prepared.json"
    if not said.exists():
        done = prepare(lines(), folder, 2, "64M")
        said.write_text(json.dumps(done._asdict()))
    return dict(json.loads(said.read_text()))


def once(folder: Path) -> list[tuple[str, int]]:
    """Each molecule's text, and the line that it comes from."""
    rows = (folder / "unique.tsv").read_text().splitlines()
    pairs = (row.split("\t") for row in rows)
    return [(text, int(line)) for text, line in pairs]


def duplicates(folder: Path, keyed: int = KEYED) -> Found:
    """How many of the lines are one molecule, by what is compared."""
    rows, given = once(folder), lines()
    last = [text for text, line in rows if line >= len(given) - keyed]
    with rdBase.BlockLogs():
        keys = [Chem.MolToInchiKey(Chem.MolFromSmiles(one)) for one in last]
    drafted = folder / "again.tsv"
    mixed = GlobalOrder(len(rows), 0)(np.arange(len(rows) * 11 // 10))
    with drafted.open("w") as file:
        file.writelines(f"{rows[i][0]}\t{i}\n" for i in mixed.tolist())
    result = folder / "again-unique.tsv"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    unique(drafted, result, "32M")
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    left = len(result.read_text().splitlines())
    drafted.unlink()
    result.unlink()
    texts = [text for text, _ in rows]
    return {
        "lines": len(given),
        "text": len({*given}),
        "canonical": len(rows),
        "rewritten": sum(
            text != given[line] for text, line in rows if line < MOSES
        ),
        "of_moses": sum(line < MOSES for _, line in rows),
        "keyed": len(last),
        "keys": len({*keys}),
        "skeletons": len({key[:14] for key in keys}),
        "sorted": {"lines": len(mixed), "left": left, "cpu": after - before},
        "set_bytes": sys.getsizeof({*texts})
        + sum(sys.getsizeof(one) for one in texts),
        "merged_32": merged(texts, 32),
        "expected_32": expected(len(texts), 32),
        "expected_64": expected(BILLION, 64),
        "expected_128": expected(BILLION, 128),
    }


# How to open a format for reading molecules by their ids.
Open = Callable[[], Callable[[np.ndarray], Sequence[Any]]]


def written(folder: Path, texts: list[str]) -> Iterator[tuple[str, Open, str]]:
    """Formats: a name, how to open it, its files."""
    lying = folder / "lines.smi"
    lying.write_text("\n".join(texts) + "\n")
    ends = np.cumsum([0] + [len(one) + 1 for one in texts])
    np.save(folder / "lines.smi.npy", ends)

    def numbered() -> Callable[[np.ndarray], list[bytes]]:
        file = lying.open("rb", buffering=0)
        where = np.load(folder / "lines.smi.npy", mmap_mode="r")

        def read(ids: np.ndarray) -> list[bytes]:
            spans = zip(
                where[ids].tolist(), where[ids + 1].tolist(), strict=True
            )
            return [os.pread(file.fileno(), b - a, a) for a, b in spans]

        return read

    yield "lines, and an index of ends", numbered, "lines.smi*"
    yield (
        "tokens and ends, mapped",
        lambda: Molecules(folder / "train").rows,
        "train/*.npy",
    )
    if not importlib.util.find_spec("pyarrow"):
        return
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    column = arrow.table({"smiles": arrow.array(texts, arrow.large_string())})
    path = folder / "lines.arrow"
    with (
        arrow.OSFile(str(path), "wb") as sink,
        arrow.ipc.new_file(sink, column.schema) as writer,
    ):
        writer.write_table(column)

    def mapped() -> Callable[[np.ndarray], list[str]]:
        whole = arrow.ipc.open_file(arrow.memory_map(str(path))).read_all()
        return lambda ids: whole["smiles"].take(ids).to_pylist()

    yield "Arrow, mapped", mapped, path.name
    packed = folder / "lines.parquet"
    parquet.write_table(
        column, packed, compression="zstd", row_group_size=GROUP
    )

    def grouped() -> Callable[[np.ndarray], list[str]]:
        file = parquet.ParquetFile(packed)

        def read(ids: np.ndarray) -> list[str]:
            found: dict[int, str] = {}
            for group in np.unique(ids // GROUP).tolist():
                here = ids[ids // GROUP == group]
                rows = file.read_row_group(group)["smiles"].take(here % GROUP)
                found.update(zip(here.tolist(), rows.to_pylist(), strict=True))
            return [found[i] for i in ids.tolist()]

        return read

    yield "Parquet, zstd", grouped, packed.name


def formats(folder: Path, texts: list[str], rounds: int = 20) -> Found:
    """Bytes a molecule; seconds for a random batch, cached and not."""
    found: Found = {}
    n = len(Molecules(folder / "train"))
    for name, opened, pattern in written(folder, texts):
        files = sorted(folder.glob(pattern))
        warm, cold = [], []
        for i in range(rounds):
            ids = GlobalOrder(n, 0)(np.arange(i * BATCH, (i + 1) * BATCH))
            for file in files:  # before it is mapped: then the kernel keeps it
                forget(file)
            read = opened()
            begun = perf_counter()
            read(ids)
            cold.append(perf_counter() - begun)
            begun = process_time()
            read(ids)
            warm.append(process_time() - begun)
            del read
        count = n if "train" in pattern else len(texts)
        found[name] = {
            "bytes": sum(file.stat().st_size for file in files) / count,
            "cached_cpu": median(warm),
            "uncached": median(cold),
        }
    return found


def forget(path: Path) -> None:
    """Ask that none of a file be kept in memory."""
    handle = os.open(path, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def rates(folder: Path, texts: list[str], molecules: int = 10_000) -> Found:
    """Of one core, in CPU time: tokens a second, by what is done."""
    data = Molecules(folder / "train")
    mean = sum(len(data.shard(i)[0]) for i in range(len(data.begins) - 1))
    each_ = mean / len(data) + 1  # with END
    order = GlobalOrder(len(texts), 0)(np.arange(molecules))
    sample = [texts[i] for i in order.tolist()]
    ids = GlobalOrder(len(data), 0)(np.arange(molecules)).reshape(
        -1, BATCH // 4
    )
    tokens = Tokens(list(data.tokens.id))

    def read() -> None:
        for batch in ids:
            data[np.stack([0 * batch, batch])]

    seconds = {
        "canonicalise": cpu(lambda: [canonical(one) for one in sample]),
        "tokenise": cpu(lambda: [tokens.encode(one) for one in sample]),
        "read and collate": cpu(read),
    }
    return {
        "tokens": each_,
        "kinds": len(data.tokens.id),
        "rates": {k: molecules * each_ / s for k, s in seconds.items()},
    }


def cpu(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of this process, the least of some runs."""
    found = []
    for _ in range(repeats):
        begun = process_time()
        work()
        found.append(process_time() - begun)
    return min(found)


def order(n: int = BILLION, lists: int = 10**8) -> Found:
    """To the first batch; in the middle; and every id of an epoch once."""
    keyed, index = GlobalOrder(n, 0), np.arange(BATCH)
    keyed(index)
    begun = perf_counter()
    keyed(index + n - n // 7)
    seek = perf_counter() - begun
    seen, begun = np.zeros(n, bool), process_time()
    block = 1 << 20
    for start in range(0, n, block):
        seen[keyed(np.arange(start, min(start + block, n)))] = True
    return {
        "n": n,
        "keyed": alone("lockstep", n),
        "seek": seek,
        "missing": int((~seen).sum()),
        "whole_cpu": process_time() - begun,
        "lists": lists,
        "torch": alone("torch", lists),
    }


def sorted_by_size(folder: Path, buffer: int = 10_000) -> Found:
    """The trend that is left of a disk that is sorted by size."""
    data = Molecules(folder / "train")
    sizes = [np.diff(data.shard(i)[1]) for i in range(len(data.begins) - 1)]
    lying = np.sort(np.concatenate(sizes))
    return {
        "molecules": len(lying),
        "mean": float(lying.mean()),
        "orders": {
            name: {
                "trend": trend(places),
                "first": float(lying[places[:BATCH]].mean()),
            }
            for name, places in orders(len(lying), buffer).items()
        },
    }


def billion(folder: Path, texts: list[str], copies: int = 64) -> Found:
    """What a million hides."""
    lengths = np.array([len(one) for one in texts], np.int32)
    wrapped = reads(np.tile(lengths, copies), np.int32)
    file = next(iter(sorted((folder / "train").glob("*.tokens.npy"))))
    mapped = np.load(file, mmap_mode="r")
    return {
        "molecules": len(texts),
        "int32": {**wrapped._asdict(), "of": len(texts) * copies},
        "list_bytes": after_fork(each, texts),
        "map_bytes": after_fork(np.sum, mapped),
    }


def epoch(folder: Path, run: Path, **settings: object) -> Found:
    """An epoch on two ranks, one of them killed in the middle, launched again
    and audited."""
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items()]
    rank = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    rank += ["--nproc-per-node=2", "-m", "lockstep.trainer"]
    rank += ["--task", "lockstep.bio.smiles.train:task"]
    launch = [*rank, f"--run-dir={run}", "--max-epochs=1", *flags]
    n, batch = len(Molecules(folder / "train")), settings["global_batch_size"]
    middle = n // int(str(batch)) // 2 + 5
    env = os.environ | {"OMP_NUM_THREADS": "1", STORE: str(folder)}
    fault = f"--fault=kill:rank=1,step={middle},phase=backward"
    for command, fails in (([*launch, fault], True), (launch, False)):
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if bool(done.returncode) != fails:
            raise RuntimeError(done.stderr[-2000:])
    log = run / "events" / "attempt-1-rank-0.jsonl"
    events = [json.loads(row) for row in log.read_text().splitlines()]
    after = next(e for e in events if e["event"] == "checkpoint_restored")
    last = events[-1]
    return {
        "killed": middle,
        "restored": after["step"],
        "accuracy": last["accuracy"],
        "loss": last["loss"],
        **audit(run).as_json(),
    }


def run(folder: Path, result: Path = RESULT) -> int:
    """All of it, written down."""
    found: Found = {**about(), "prepared": prepared(folder)}
    for name in ("rdkit", "pyarrow"):
        if importlib.util.find_spec(name):
            found["versions"][name] = version(name)
    texts = [text for text, _ in once(folder)]
    found["formats"] = formats(folder, texts)
    found["rates"] = rates(folder, texts, 9984)
    found["duplicates"] = duplicates(folder)
    found["sorted"] = sorted_by_size(folder)
    found["billion"] = billion(folder, texts)
    found["order"] = order()
    found["epoch"] = epoch(
        folder,
        folder / "run",
        global_batch_size=4096,
        micro_batch_size=512,
        hidden_size=16,
        learning_rate=0.01,
    )
    write(found, result)
    return render(result)


def render(result: Path = RESULT) -> int:
    """Write the tables of a result anew."""
    return markdown.render(result, disk, core, node, wrong, killed, machine)


def disk(found: Found) -> str:
    """A row for each format."""
    return table(
        ["format", "bytes a molecule", "CPU ms for 256, cached"],
        (
            [
                name,
                f"{one['bytes']:.1f}",
                f"{one['cached_cpu'] * 1e3:.2f}",
            ]
            for name, one in found["formats"].items()
        ),
    )


def core(found: Found) -> str:
    """What a core does in a second, and how long a billion takes it."""
    return table(
        ["one core", "tokens a second", "core hours a billion molecules"],
        (
            [name, f"{rate / 1e6:.2f} M", f"{core_hours(found, name):.1f}"]
            for name, rate in found["rates"]["rates"].items()
        ),
    )


def core_hours(found: Found, work: str) -> float:
    """For a billion molecules of as many tokens as these."""
    tokens = found["rates"]["tokens"]
    return float(BILLION * tokens / found["rates"]["rates"][work] / 3600)


def planned(found: Found, model: str) -> Found:
    """An epoch of a billion on a node, by the planner."""
    tokens = found["rates"]["tokens"]
    return layout(
        {
            **MODELS[model],
            **HARDWARE["h100"],
            **WHITEBOARD,
            "gpus": GPUS,
            "sequence": round(tokens),
            "micro_batch": 512,
            "global_batch": 512 * GPUS,
            "tokens": BILLION * tokens,
            "price_gpu_hour": PRICE,
        }
    )


def workers(found: Found, model: str, work: str) -> float:
    """Cores that keep one GPU in tokens."""
    eaten = planned(found, model)["tokens_per_second"].value / GPUS
    return float(eaten / found["rates"]["rates"][work])


def node(found: Found) -> str:
    """A row for each model."""
    rows = []
    for model in MODELS:
        plan = planned(found, model)
        rows.append(
            [
                f"{plan['total'].value / 1e6:,.0f} M",
                f"{plan['tokens_per_second'].value / GPUS / 1e6:.2f} M",
                *(
                    f"{workers(found, model, work):.1f}"
                    for work in ("read and collate", "canonicalise")
                ),
                f"{plan['days'].value * 24:.1f} h",
                f"{plan['cost'].value:,.0f}",
            ]
        )
    return table(
        [
            "model",
            "tokens/s a GPU",
            "cores to read",
            "to canonicalise",
            "an epoch",
            "its cost",
        ],
        rows,
    )


def wrong(found: Found) -> str:
    """The sorted disk at a million."""
    return table(
        ["sorted by size, 10⁶ read in", "trend", "mean size of the first 256"],
        (
            [name, f"{one['trend']:.3f}", f"{one['first']:.1f}"]
            for name, one in found["sorted"]["orders"].items()
        ),
    )


def killed(found: Found) -> str:
    """What the audit of the epoch found."""
    one = found["epoch"]
    return table(
        [
            *("epoch on", "killed in step", "restored", "steps"),
            *("molecules", "again", "never"),
        ],
        [
            [
                "two ranks",
                *(f"{one[k]:,}" for k in ("killed", "restored", "steps")),
                *(f"{one[k]:,}" for k in ("samples", "duplicates", "missing")),
            ]
        ],
    )


def machine(found: Found) -> str:
    """Where, when and with what this was measured."""
    made = found["prepared"]
    return measured(
        found,
        Data=f"{made['lines']:,} lines: MOSES's first {MOSES:,}, ChEMBL's and"
        " the NCI's",
        Molecules=f"{made['train']:,} for training, of"
        f" {found['rates']['tokens']:.1f} tokens with their end",
        Order=f"first batch of {found['order']['n']:,}:"
        f" {found['order']['keyed']['seconds'] * 1e3:.0f} ms,"
        f" {in_bytes(found['order']['keyed']['bytes'])}",
    )


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1])))
