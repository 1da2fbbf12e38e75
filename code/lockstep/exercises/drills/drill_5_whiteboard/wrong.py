"""Drill 5's mistakes: in the solution, what is replaced, by what, and the
criteria that this costs."""

MISTAKES = {
    "a person decides on each retry": (
        '  metrics -->|"steps lost"| policy\n',
        '  metrics -->|"steps lost"| policy\n'
        '  policy -->|"a page at night"| notebook\n',
        {"unattended"},
    ),
    "an arrow says nothing": (
        'notebook -->|"config"| artifacts',
        "notebook --> artifacts",
        {"labels"},
    ),
    "the image is built from whatever is there": (
        '"image"',
        '"latest"',
        {"image"},
    ),
    "the launcher only stops ranks": (
        "ranks, notice",
        "notice",
        {"launch"},
    ),
    "checkpoints never come back": (
        "config, state",
        "config",
        {"resume"},
    ),
    "the config comes with the command": (
        "ranks, notice",
        "ranks, config, notice",
        {"config"},
    ),
    "rank 0 speaks for all": (
        "every rank",
        "loss",
        {"every rank"},
    ),
    "retries have no end": (
        "retry budget",
        "retry",
        {"policy"},
    ),
    "the policy restarts ranks itself": (
        '  policy -->|"retry budget"| launcher\n',
        '  policy -->|"retry budget"| trainer\n',
        {"policy"},
    ),
    "the notebook stays outside": (
        '  notebook -->|"image"| trainer\n',
        '  ci -->|"image"| trainer\n',
        {"image"},
    ),
    "a machine is taken back unheard": (
        "ranks, notice",
        "ranks",
        {"notice"},
    ),
}
