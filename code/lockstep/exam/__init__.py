"""An exam of resume for any trainer, whatever it is built on.

    lockstep exam adapter.py

`adapter` says how a trainer is launched; `observe` and `task` run inside the
trainer's processes and need only torch; the rest runs in the examiner:
`launching` starts and ends processes, `lineage` puts together what a run was
trained on, `scenarios` disturbs runs and `questions` judges what they did.
"""
