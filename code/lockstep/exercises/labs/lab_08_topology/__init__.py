"""Lab 08: topology and communication.

**A hierarchical all-reduce sends as many bytes per rank as a ring does.** It
moves some of them from the network into the node. Whether that is faster, and
when a tree beats both, are sums of two numbers for each kind of link.

Measure these numbers, α and β, between two processes. Predict a ring, a tree
and a hierarchical all-reduce on a described cluster, and choose by size. Write
the hierarchical one, and order the axes of a mesh so that few bytes leave a
node.

A message costs α seconds, and β for each byte. So an algorithm costs α for each
hop in a row, and β for each byte that a rank sends.

The grader brings a clock of its own, times with outliers, and clusters, and
counts what crosses between nodes. Once it measures: a prediction of yours must
come within a factor of four.
"""
