"""A sharded step: gather, compute, free, reduce, and the memory beneath."""

from lockstep.planner import activations, collectives, models
from lockstep.planner.figures import derive, plain, short
from lockstep.planner.hardware import HARDWARE
from lockstep.planner.presets import preset

from .scene import Areas, Lanes, Scene
from .settings import SHARDED, Choice, Slider

TITLE = "A sharded step"
RANKS = 64
LAYERS = 6  # of the model's size: enough to see a step, few enough to read it
SEQUENCE = 8192
MODEL = models.params(preset("llama3-70b"))
PARAMETERS = plain(MODEL["attention_per_layer"]) + plain(MODEL["mlp_per_layer"])
ACHIEVED = HARDWARE["h100"]["peak_flops"] * 0.6  # a round share
BACKWARD = 3  # times the forward pass, which is one of the three


def seconds(value: float) -> str:
    """Milliseconds, as the axis has them."""
    return short(round(value * 1e3, 1)) + " ms"


def gigabytes(value: float) -> str:
    """Bytes in 10⁹."""
    return short(round(value / 1e9, 1)) + " GB"


SETTINGS = [
    SHARDED,
    Choice(
        "prefetch",
        "Gather ahead",
        [(1, "one layer"), (2, "two layers"), (0, "not at all")],
    ),
    Choice(
        "reshard",
        "After the forward pass",
        [(1, "free the weights"), (0, "keep them gathered")],
    ),
    Slider(
        "bandwidth",
        "Bandwidth of a gather",
        [12, 25, 46, 100, 150, 200, 365],
        365,
        lambda value: f"{value} GB/s",
    ),
    Slider(
        "tokens",
        "Tokens per micro-batch",
        [1024, 2048, 4096, 8192, 16384, 32768],
        8192,
        lambda value: f"{value:,}",
    ),
]
SCENES = [
    ("hidden", "The gather hides", ""),
    ("slow", "One NIC for eight GPUs", "bandwidth:46"),
    ("larger", "The same, two sequences", "bandwidth:46,tokens:16384"),
    ("ddp", "DDP", "stage:0"),
]


class Costs:
    """Seconds and bytes of one layer, by the planner's formulas."""

    def __init__(self, values: dict) -> None:
        sequence = min(values["tokens"], SEQUENCE)
        # A causal kernel does half of attention's products.
        scores = 2 * MODEL["heads"] * MODEL["head_dim"] * sequence
        work = (2 * PARAMETERS + scores) * values["tokens"]
        self.forward = work / ACHIEVED
        self.weights = 2 * PARAMETERS  # bytes, in bf16; a gradient has as many
        self.gather = _sent("all_gather", self.weights, values)
        reduced = values.get("reduced", 2) * PARAMETERS  # 2 or 4 bytes each
        self.scatter = _sent("reduce_scatter", reduced, values)
        self.all_reduce = _sent("all_reduce", self.weights, values)
        given = dict(MODEL)
        given.update(
            sequence=sequence,
            micro_batch=values["tokens"] / sequence,
            tp=1,
            cp=1,
            sequence_parallel=False,
            mlp_copies=4,
            norm_bytes=2,
        )
        given = derive(given, [activations.WIDTH, activations.BLOCK])
        self.block = plain(given["block_bytes"])  # while the layer computes
        kept = derive(given, [activations.KEPT["full"]])["kept_per_layer"]
        self.kept = plain(kept)  # its input, until the backward pass


def _sent(op: str, size: float, values: dict) -> float:
    given = {"op": op, "bytes": size, "ranks": RANKS, "algorithm": "ring"}
    given.update(bandwidth=values["bandwidth"] * 1e9, latency=0)
    return plain(collectives.collective(given)["seconds"])


class Step:
    """What happens when: bars of two streams, and what is held from when to
    when, as (start, end, kind, bytes).

    Computing and the network each do one thing at a time, in the order in
    which the work is given to them.
    """

    def __init__(self, values: dict) -> None:
        self.values, self.costs = values, Costs(values)
        self.layers = values.get("layers", LAYERS)
        self.compute: list = []
        self.network: list = []
        self.held: list = []
        self.gathered: dict = {}  # by layer: when its weights are whole
        self.end = 0.0  # of what was computed last
        whole = values["stage"] == 3
        self.forward(whole)
        self.turned = self.end
        self.backward(whole)
        self.update()

    def send(self, ready: float, takes: float, kind: str, layer: int) -> tuple:
        """The network's next work, which can begin when it is `ready`."""
        start = max(ready, self.network[-1][1] if self.network else 0.0)
        end = start + takes
        self.network.append((start, end, kind, str(layer + 1)))
        return start, end

    def work(self, ready: float, takes: float, kind: str, layer: int) -> float:
        """Compute as soon as may be; the moment at which it began."""
        start = max(ready, self.end)
        self.end = start + takes
        self.compute.append((start, self.end, kind, str(layer + 1)))
        return start

    def fetch(self, layer: int, ready: float) -> None:
        """Gather a layer's weights, unless they are there."""
        if layer in self.gathered or not 0 <= layer < self.layers:
            return
        start, end = self.send(ready, self.costs.gather, "gather", layer)
        self.gathered[layer] = start, end

    def free(self, layer: int, moment: float) -> None:
        """Drop a layer's gathered weights."""
        start, _ = self.gathered.pop(layer)
        self.held.append((start, moment, "gathered", self.costs.weights))

    def passes(self, order: list, whole: bool, takes: float, kind: str):  # type: ignore[no-untyped-def]
        """Go through the layers, gathering `prefetch` of them ahead; each
        layer with the moments between which it was computed."""
        ahead = self.values["prefetch"]
        for index, layer in enumerate(order):
            ready = 0.0
            if whole:
                self.fetch(layer, self.end)
                ready = self.gathered[layer][1]
            start = self.work(ready, takes, kind, layer)
            if whole:
                for one in order[index + 1 : index + 1 + ahead]:
                    self.fetch(one, start)
            self.held.append((start, self.end, "activations", self.costs.block))
            yield layer, start, self.end

    def forward(self, whole: bool) -> None:
        """Layer by layer; the weights go, or stay for the backward pass."""
        order = list(range(self.layers))
        self.kept_from = {}
        for layer, _, end in self.passes(
            order, whole, self.costs.forward, "compute"
        ):
            self.kept_from[layer] = end
            if whole and self.values["reshard"]:
                self.free(layer, end)

    def backward(self, whole: bool) -> None:
        """Layers in reverse, each recomputed, its gradients reduced behind."""
        stage, costs = self.values["stage"], self.costs
        order = list(reversed(range(self.layers)))
        takes = BACKWARD * costs.forward
        self.reduced = 0.0
        for layer, start, end in self.passes(order, whole, takes, "backward"):
            self.held.append(
                (self.kept_from[layer], end, "activations", costs.kept)
            )
            if whole:
                self.free(layer, end)
            takes_sending = costs.scatter if stage else costs.all_reduce
            _, self.reduced = self.send(end, takes_sending, "reduce", layer)
            if stage >= 2:  # a shard is left of it when the next one is done
                over = max(self.reduced, end + (takes if layer else 0))
                self.held.append((start, over, "gradients", costs.weights))

    def update(self) -> None:
        """The optimizer's step; stages 1 and 2 then gather what it wrote."""
        self.finish = max(self.end, self.reduced)
        if self.values["stage"] in (1, 2):
            for layer in range(self.layers):
                _, self.finish = self.send(
                    self.finish, self.costs.gather, "gather", layer
                )

    def state(self) -> dict:
        """Bytes that are held all the time, by kind."""
        stage, each = self.values["stage"], PARAMETERS * self.layers
        over = {name: RANKS if stage >= n else 1 for name, n in STAGES}
        return {
            "weights": 2 * each / over["weights"],
            "gradients": 2 * each / over["gradients"],
            "optimizer": 12 * each / over["optimizer"],
        }

    def waits(self) -> list:
        """From when to when nothing is computed."""
        found, last = [], 0.0
        for start, end, _, _ in self.compute:
            if start - last > 1e-9:
                found.append((last, start, "waiting", ""))
            last = end
        if self.finish - last > 1e-9:
            found.append((last, self.finish, "waiting", ""))
        return found


STACKED = "optimizer", "weights", "gradients", "gathered", "activations"
STAGES = ("optimizer", 1), ("gradients", 2), ("weights", 3)


def draw(values: dict) -> Scene:
    """The scene of a step with these settings."""
    step = Step(values)
    waits = step.waits()
    waited = sum(end - start for start, end, _, _ in waits)
    bars = sorted(step.compute + waits)
    rows = [("GPU", bars), ("network", step.network)]
    memory = held(step)
    peak = max(memory.totals())
    hides = step.costs.gather <= step.costs.forward
    numbers = [
        ("a layer computes, forward", seconds(step.costs.forward)),
        ("its gather", seconds(step.costs.gather)),
        ("the GPU waits", f"{waited / step.finish:.0%} of the step"),
        ("a step of six layers", seconds(step.finish)),
        ("peak memory", gigabytes(peak)),
    ]
    if values["stage"] == 3:
        fits = "fits behind" if hides else "takes longer than"
        told = (
            f"Gathering a layer takes {seconds(step.costs.gather)}, which"
            f" {fits} the {seconds(step.costs.forward)} that a layer computes."
        )
    else:
        told = "No weights are gathered while the layers compute."
    told += (
        f" The GPU waits for {waited / step.finish:.0%} of a step of"
        f" {seconds(step.finish)}, and holds {gigabytes(peak)} at most."
    )
    panels = [Lanes("What a rank does", rows), memory]
    return Scene(panels, step.finish, seconds, numbers, told)


def held(step: Step) -> Areas:
    """Memory over the step: state at the bottom, what comes and goes above."""
    times = [0.0, step.finish]
    for start, end, _, _ in step.held:
        times += [start, min(end, step.finish)]
    moments = sorted({round(time, 9) for time in times})
    layers = []
    always = step.state()
    for kind in STACKED:
        values = []
        for moment, after in zip(moments, moments[1:]):
            middle = (moment + after) / 2
            values.append(
                always.get(kind, 0.0)
                + sum(
                    size
                    for start, end, one, size in step.held
                    if one == kind and start <= middle < end
                )
            )
        layers.append((kind, values))
    return Areas("What it holds", moments, layers, gigabytes)
