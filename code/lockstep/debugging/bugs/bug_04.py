"""Bug 04: the restart is refused, and nothing has changed."""

COMPLAINT = """
I stop a run and launch the same command again, on the same machine, from the
same commit. It says that the checkpoint is of another run. The settings in both
logs are equal to the last digit, and the unit test that compares two configs
passes.
"""
LOG = r"""
$ train 2 --run-dir a --stop-at-step 20 > last
$ train 2 --run-dir a 2>&1 | grep 'another run' | head -n 1
step-00000020 is of another run: 86d0952498762146, not def03ca0881b83f3
"""
HINTS = [
    "Which value is compared, and is it equal in two launches?",
    "What does the unit test have in common that two launches have not?",
    "`PYTHONHASHSEED` is documented with Python's command line.",
]
ELSE = """
A default that was edited, a path among the settings, floats printed and read
again. Equal settings with two digests rule them out.
"""
OTHER = "09"
REWRITTEN = [
    (
        """\
        return {k: v for k, v in asdict(self).items() if k not in OF_A_LAUNCH}
""",
        """\
        return {k: v for k, v in asdict(self).items() if k not in OF_A_LAUNCH}

    def digest(self):  # equal for equal runs: a restore compares it
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
""",
    ),
    (
        """\
    for name, was in state["config"].items():
        if (now := getattr(r.cfg, name)) != was:
            sys.exit(f"--{name.replace('_', '-')} is {now}; the run has {was}")
""",
        """\
    if (now := r.cfg.digest()) != (was := state["digest"]):
        sys.exit(f"{path.name} is of another run: {was[:16]}, not {now[:16]}")
""",
    ),
    (
        """"world_size": world, "config": cfg.identity()}
""",
        """"world_size": world, "config": cfg.identity(),
             "digest": cfg.digest()}
""",
    ),
]
PLANTED = {
    "04": [
        (
            """\
        text = json.dumps(self.identity(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
""",
            """\
        settings = tuple(sorted(self.identity().items()))
        return f"{hash(settings) & 0xFFFFFFFFFFFFFFFF:016x}"
""",
        )
    ]
}
