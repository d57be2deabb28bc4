"""Recorded results of every interface: labels, released values, ledger rows, signatures.

A refactoring must change none of them. ``python -m tests.golden record`` records anew, ``python -m
tests.golden diff`` lists each difference, and ``show`` prints a result in full; ``--door`` and
``--case`` select some.

To move code without changing it: record, move, compare. Identifiers, times, seconds, versions and
digests are masked; released rows are compared as multisets, labels record by record.
"""
