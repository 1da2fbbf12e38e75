"""Lab 09: interview scenarios.

    python -m lockstep.labs.lab_09_interview_scenarios [ID [FILE]]

lists the 24. With an ID it says what is asked, and with this file as well it
shows your answer beside the rubric, then a strong answer.

Answer aloud first, in a minute and a half. Then write what you said:

    "A1": Answer(
        problem="what is short, as a number",
        mechanism="what is split, copied or moved, and when",
        communication="which bytes, over which link, behind what",
        trade_off="what it costs, and when you would decide otherwise",
        measurement="what you would look at, and what would refute you",
        numbers={"whole_gb": 0.0},  # by the names that the scenario gives
        layout={"dp": 8, "tp": 1, "zero_stage": 0},  # where one is asked for
        score={"problem": 0},  # yours, by the rubric: 0, 1 or 2 for each part
    ),

The planner is allowed: `lockstep plan --help`.
"""

from lockstep.labs.lab_09_interview_scenarios.scenario import Answer

ANSWERS: dict[str, Answer] = {}  # TODO: by ID; any of them, in any order
