"""A mean of means is another mean.

python -m lockstep.experiments.demos.mean_of_means
"""


# --8<-- [start:means]
def mean(losses: list[float]) -> float:
    """NaN for none, as torch has it."""
    return sum(losses) / len(losses) if losses else float("nan")


def mean_of_means(shares: list[list[float]]) -> float:
    """Each rank averages its share, and all-reduce averages the ranks."""
    return mean([mean(share) for share in shares])


def global_mean(shares: list[list[float]]) -> float:
    """Each rank sums its share, over the count of all ranks."""
    count = sum(len(share) for share in shares)
    return sum(sum(share) / count for share in shares)


# --8<-- [end:means]
EXAMPLES: list[list[list[float]]] = [
    [[1, 2], [3, 10]],
    [[1, 2, 3], [10]],
    [[1, 2, 3, 10], []],
]


def main() -> None:
    """Equal shares, unequal ones, and one of nothing."""
    for shares in EXAMPLES:
        means, right = mean_of_means(shares), global_mean(shares)
        print(f"{shares!s:19} mean of means {means}, global mean {right}")


if __name__ == "__main__":
    main()
