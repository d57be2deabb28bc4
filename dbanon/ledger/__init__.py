"""The ledger: what dbanon keeps of releases, runs, budgets and jobs, beside the releases."""
