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
