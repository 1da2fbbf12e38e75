"""Debugging: broken trainers, for a reader to find out what is wrong.

`silent` has the seventeen faults that a typical trainer has without a sign,
each as a faulty copy; `bugs` plants them in the interview cut.
"""
