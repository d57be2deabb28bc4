"""What dbanon answered once, at every door: labels, released values, ledger rows, signatures.

A move, a new name or a new room must change none of it. ``python -m tests.golden record`` records
anew, ``python -m tests.golden diff`` lists what differs, one by one, and ``show`` prints an answer
in full; ``--door`` and ``--case`` take some of it.

To move code without changing it: record, move, compare. Identifiers, times, seconds, versions and
digests are masked; released rows are compared as multisets, labels record by record.
"""
