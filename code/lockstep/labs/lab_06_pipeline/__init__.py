"""Lab 06: pipeline schedules: GPipe, 1F1B, interleaved.

**1F1B leaves a pipeline idle for as long as GPipe does.** What it saves is
memory: a stage holds activations of as many micro-batches as there are stages,
and no longer of all. Several parts a stage save time, and cost messages.

Write what each stage does, in order, as three lists of actions, and then the
stage that carries out any such list: it receives, computes and sends, and its
gradients are those of the uncut model.

The grader plays your lists on a clock: a backward takes as long as two
forwards. It holds idle time and activations against the planner's. Your stage
trains on two to four processes beside the uncut model.
"""

STARTER = """Lab 06: pipeline schedules: GPipe, 1F1B, interleaved.

A model is cut into parts, one after the other. Each of `stages` ranks holds
one part, or several, its chunks: chunk c of stage s is part c * stages + s, so
what leaves the last stage comes back to the first for the next chunk.

A schedule is what one stage does in a step, in order: a forward and a backward
of each micro-batch through each of its chunks. Both are numbered from 0.
"""

TODO = {
    "gpipe_schedule": "the activations of all are held",
    "one_f_one_b_schedule": "how many forwards come first?",
    "interleaved_schedule": "nobody waits longer than it must",
    "PipelineStage.__init__": "",
    "PipelineStage.run": "whichever neighbor sends first",
}
