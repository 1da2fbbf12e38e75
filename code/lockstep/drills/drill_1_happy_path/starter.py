"""Drill 1, the happy path: one process trains, and its log says how it goes.

python drill_1.py --run-dir DIR
"""
# 1. Config: a frozen dataclass TrainConfig. Its settings: run_dir, seed,
#    global_batch_size, max_steps, learning_rate, warmup_steps, dropout.

# 2. Data: toy() -> (TensorDataset of (id, x, y), (x, y) held out), with a truth
#    to learn. sampler(cfg, n) yields the sample ids of each step.

# 3. Model: build(cfg) -> (model, optimizer).
#    learning_rate(cfg, step) -> the rate: a linear warm-up, (step + 1) /
#    (warmup_steps + 1) below 1, times a cosine from 1 to a tenth.

# 4. Metrics: one JSON object a line in DIR/events. evaluate(r, x, y) -> the
#    share of right answers.

# 5. Loop: train(cfg) -> the last event. Events: "run_started"; "step" with
#    step, position, loss, learning_rate; "run_finished" with accuracy too.
