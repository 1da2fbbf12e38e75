"""Pipeline schedules as lists: what each rank does, in order.

A model is cut into parts, one after the other, and each rank holds one of them
or several. A schedule says what each rank does, in order. It is a list of
steps, and a step is a list of one action, or of two that run as an overlapped
pair. An action is (kind, micro-batch, which of the rank's parts). The kinds:

    F  forward
    B  backward, whole
    I  the half of a backward that computes the gradient of the part's input
    W  the other half, which computes the gradients of its weights
"""

from .figures import divides, one_of, refuse, whole


def alternate(forwards: list, backwards: list, warm_up: int) -> list:
    """`warm_up` forwards, then one forward, one backward, then what is left."""
    left = len(forwards[warm_up:])
    found = list(forwards[:warm_up])
    for number in range(left):
        found += [forwards[warm_up + number], backwards[number]]
    return found + backwards[left:]


def _each(kind: str, micro_batches: int) -> list:
    return [(kind, number, 0) for number in range(micro_batches)]


def gpipe(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """All forwards, then all backwards: Huang et al. 2019, section 2.3."""
    forwards, backwards = _each("F", micro_batches), _each("B", micro_batches)
    return _singly(alternate(forwards, backwards, micro_batches))


def one_f_one_b(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """A backward as soon as it can be: Narayanan et al. 2021, 2.2.1."""
    forwards, backwards = _each("F", micro_batches), _each("B", micro_batches)
    return _singly(alternate(forwards, backwards, ranks - 1 - rank))


def interleaved(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """1F1B over several parts a rank: Narayanan et al. 2021, 2.2.2, with two
    forwards of warm-up for each later rank, as Megatron-LM and torch have it.
    """
    every = [(m, part) for m in range(micro_batches) for part in range(parts)]
    every.sort(key=lambda one: (one[0] // ranks, one[1], one[0]))
    forwards = [("F", m, part) for m, part in every]
    backwards = [("B", m, parts - 1 - part) for m, part in every]
    warm_up = (parts - 1) * ranks + 2 * (ranks - 1 - rank)
    return _singly(alternate(forwards, backwards, warm_up))


def _zero_bubble(rank: int, ranks: int, micro_batches: int, ahead: int) -> list:
    """1F1B with split backwards. The later the rank, the further its gradients
    of weights come behind those of inputs, so all ranks hold as much."""
    forwards, backwards = _each("F", micro_batches), _each("I", micro_batches)
    behind = ahead * rank
    found = []
    for action in alternate(forwards, backwards, ahead * (ranks - 1 - rank)):
        found.append(action)
        if action[0] == "I" and action[1] >= behind:
            found.append(("W", action[1] - behind, 0))
    done = max(0, micro_batches - behind)
    return _singly(found + _each("W", micro_batches)[done:])


def zb_h1(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """Qi et al. 2024, section 2.1: 1F1B's memory, a third of its bubble."""
    return _zero_bubble(rank, ranks, micro_batches, 1)


def zb_h2(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """Qi et al. 2024, section 2.2: twice as far ahead, and no bubble."""
    return _zero_bubble(rank, ranks, micro_batches, 2)


def _singly(actions: list) -> list:
    return [[action] for action in actions]


class _Order:
    """Steps, written down in order; it knows which micro-batch is next."""

    def __init__(self) -> None:
        self.steps: list = []
        self.next = {kind + part: 0 for kind in "FB" for part in "01"}
        self.owed: list = []  # gradients of weights: part and micro-batch

    def do(self, text: str, times: int = 1) -> None:
        """Steps such as "F0 I1 F0&B1 W", so many times. W is the gradient of
        weights that has waited longest, W0 the same of part 0."""
        for step in times * text.split():
            if step[0] == "W":
                self._pay(step[1:])
            else:
                self.steps.append(
                    [self._action(one) for one in step.split("&")]
                )

    def _action(self, one: str) -> tuple:
        kind, part = one[0], one[1]
        counted = ("F" if kind == "F" else "B") + part
        number = self.next[counted]
        self.next[counted] += 1
        if kind == "I":
            self.owed.append((part, number))
        return kind, number, int(part)

    def _pay(self, part: str) -> None:
        for index, (owing, number) in enumerate(self.owed):
            if part in ("", owing):
                del self.owed[index]
                self.steps.append([("W", number, int(owing))])
                return


def zbv(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """Qi et al. 2024, section 6, in the order in which torch's
    `ScheduleZBVZeroBubble` has it. Parts go down the ranks and up again."""
    most = max(micro_batches, 2 * ranks - 1)
    order = _Order()
    order.do("F0", 2 * (ranks - rank) - 1)
    order.do("F1 F0", rank)
    order.do("F1 I1 W1", ranks - rank)
    while order.next["F1"] < most:
        if order.next["F0"] < most:
            order.do("F0")
        order.do("I0 W0 F1 I1 W1")
    order.do("I0 I1", rank)
    order.do("I0 W0", ranks - rank)
    order.do("W1", rank)
    order.do("W0", rank)
    return [step for step in order.steps if step[0][1] < micro_batches]


def dualpipev(rank: int, ranks: int, micro_batches: int, parts: int) -> list:
    """The half of DeepSeek-V3's DualPipe that its other half mirrors: Qi et
    al. 2025, "DualPipe could be better without the Dual", in the order in
    which DeepSeek's and torch's `DualPipeV` have it."""
    later = ranks - 1 - rank
    order = _Order()
    order.do("F0", 2 * later)
    order.do("F0 F1", rank + 1)
    order.do("I1 W F1", later)
    main = micro_batches - 2 * ranks + rank + 1
    if not later:  # the last rank begins without a pair
        order.do("F0 B1 F1&B0")
        main -= 1
    order.do("F0&B1 F1&B0", main)
    order.do("B1 F1&B0", later)
    # Of the last backwards the second half is split.
    whole_ones, odd = (rank + 1) // 2, rank % 2
    for number in range(rank + 1):
        order.do("B1" if number < whole_ones + 1 - odd else "I1")
        order.do("B0" if number < whole_ones else "I0")
    order.do("W I0", later)
    order.do("W", rank + 1)
    return order.steps


# By name: the lists, how many parts a rank holds (0: as many as one likes), and
# whether they go down the ranks and up again or down over and over.
SCHEDULES: dict = {
    "gpipe": (gpipe, 1, False),
    "1f1b": (one_f_one_b, 1, False),
    "interleaved": (interleaved, 0, False),
    "zb-h1": (zb_h1, 1, False),
    "zb-h2": (zb_h2, 1, False),
    "zbv": (zbv, 2, True),
    "dualpipev": (dualpipev, 2, True),
}


class Schedule:
    """What each rank does, and where the parts of the model are.

    Args:
        name: one of SCHEDULES.
        parts: of a rank, where the schedule leaves a choice.

    Raises:
        PlanError: there is no such schedule for these sizes.
    """

    def __init__(
        self, name: str, ranks: int, micro_batches: int, parts: int = 1
    ) -> None:
        one_of("schedule", name, tuple(SCHEDULES))
        whole("stages", ranks)
        whole("microbatches", micro_batches)
        make, fixed, self.v_shaped = SCHEDULES[name]
        self.parts = fixed or whole("virtual_stages", parts)
        if name == "interleaved":
            divides("stages", ranks, "microbatches", micro_batches)
        if name == "dualpipev" and micro_batches < 2 * ranks:
            refuse("microbatches", micro_batches, f"at least {2 * ranks}")
        self.ranks, self.micro_batches = ranks, micro_batches
        self.steps = [
            make(rank, ranks, micro_batches, self.parts)
            for rank in range(ranks)
        ]

    def place(self, rank: int, part: int) -> int:
        """Which part of the model it is, counted from 0."""
        if self.v_shaped and part == 1:
            return 2 * self.ranks - 1 - rank
        return part * self.ranks + rank

    def held(self) -> list:
        """For each rank the most micro-batches of which it has done a forward
        and not yet every gradient. A part of v counts one v-th."""
        found = []
        for steps in self.steps:
            now, most = 0, 0
            for action in [action for step in steps for action in step]:
                now += {"F": 1, "B": -1, "I": 0, "W": -1}[action[0]]
                most = max(most, now)
            found.append(most / self.parts)
        return found
