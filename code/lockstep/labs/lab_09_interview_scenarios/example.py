"""One answer as many give it, to look at beside the rubric."""

from lockstep.labs.lab_09_interview_scenarios.scenario import Answer

ANSWERS = {
    "A2": Answer(
        problem="16 bytes a parameter are 128 GB, and the GPU has 80.",
        mechanism="ZeRO-1 shards Adam over 8 ranks: 44 GB are left.",
        communication="Reduce-scatter and all-gather, as many bytes as DDP.",
        trade_off="If it does not fit, I recompute activations.",
        measurement="I watch nvidia-smi.",
        numbers={"state_gb": 128, "one_gb": 44, "again_s": 3.4},
        layout={"dp": 8, "zero_stage": 1},
        score={
            "problem": 1,
            "mechanism": 1,
            "communication": 2,
            "trade_off": 1,
            "measurement": 0,
        },
    ),
}
