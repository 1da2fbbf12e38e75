"""Drill 5's wrong answers: the solution with a mistake."""

from lockstep.grading.mutants import Mutant

MUTANTS = (
    Mutant.diff("a person decides on each retry", {"unattended"}, """
   metrics -->|"steps lost"| policy
+  policy -->|"a page at night"| notebook
"""),
    Mutant.diff("an arrow says nothing", {"labels"}, """
-  notebook -->|"config"| artifacts
+  notebook --> artifacts
"""),
    Mutant.diff("the image is built from whatever is there", {"image"}, """
-  notebook -->|"image"| trainer
+  notebook -->|"latest"| trainer
"""),
    Mutant.diff("the launcher only stops ranks", {"launch"}, """
-  launcher -->|"ranks, notice"| trainer
+  launcher -->|"notice"| trainer
"""),
    Mutant.diff("checkpoints never come back", {"resume"}, """
-  artifacts -->|"config, state"| trainer
+  artifacts -->|"config"| trainer
"""),
    Mutant.diff("the config comes with the command", {"config"}, """
-  launcher -->|"ranks, notice"| trainer
+  launcher -->|"ranks, config, notice"| trainer
"""),
    Mutant.diff("rank 0 speaks for all", {"every rank"}, """
-  trainer -->|"every rank"| metrics
+  trainer -->|"loss"| metrics
"""),
    Mutant.diff("retries have no end", {"policy"}, """
-  policy -->|"retry budget"| launcher
+  policy -->|"retry"| launcher
"""),
    Mutant.diff("the policy restarts ranks itself", {"policy"}, """
-  policy -->|"retry budget"| launcher
+  policy -->|"retry budget"| trainer
"""),
    Mutant.diff("the notebook stays outside", {"image"}, """
-  notebook -->|"image"| trainer
+  ci -->|"image"| trainer
"""),
    Mutant.diff("a machine is taken back unheard", {"notice"}, """
-  launcher -->|"ranks, notice"| trainer
+  launcher -->|"ranks"| trainer
"""),
)
