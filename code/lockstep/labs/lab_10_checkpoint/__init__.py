"""Lab 10: checkpoint and resume, as if nothing had happened.

**A killed process loses no byte that it has written, synced or not.** The
kernel has its writes, and lives on. What a kill costs is order: a name without
its files, a count ahead of the training, a rank that goes on from another step.

Write a loader that resumes in the middle of an epoch, a sampler whose only
state is a position, and checkpoints that are whole or do not exist. A position
is a number of samples, so any number of ranks can go on from it. A checkpoint
gets its name by a rename, and a restore believes nothing but digests.

The grader kills a small job, built on your answer, at drawn moments of its
saves. It goes on with the same or another number of ranks, and has to end with
the samples and weights of a job that nobody killed.
"""

STARTER = """Lab 10: checkpoint and resume.

Part one is a loader on one process, part two a sampler for many. Part three
keeps state: a checkpoint is a directory below `root`,

    step-00000012/            its step, with eight digits
        manifest.json         {"step": 12, "files": {"model.pt":
                                {"bytes": 880, "sha256": "9f86…"}, …}}
        model.pt              a file for each part, by torch.save

and nothing else there is one, whatever it is called. A process may be killed
between any two lines. Ranks share `root`, and are in a group already.
"""

TODO = {
    "Loader.__init__": "",
    "Loader.__iter__": "what was got counts, nothing else",
    "Loader.state_dict": "",
    "Loader.load_state_dict": "",
    "share": "the order first, then the ranks",
    "publish": "no moment at which half of it has a name",
    "newest": "nothing is believed, everything is read",
    "load": "",
    "prune": "a damaged one is nothing to fall back on",
}
