"""What dbanon answered once, at every door: labels, released values, ledger rows, signatures.

A move, a new name or a new room must change none of it. ``python -m tests.golden record`` records
anew, ``python -m tests.golden diff`` lists what differs, one by one, and ``show`` prints an answer
in full.
"""
