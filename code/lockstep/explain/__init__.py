"""The first fault in the logs of a training run: `lockstep explain`.

The matcher and the verdict, which `page.FILES` lists, also run in MicroPython,
in a reader's browser, so they use no regular expressions, no data classes and
no order of dictionaries.
"""
