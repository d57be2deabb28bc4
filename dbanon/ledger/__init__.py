"""The ledger: records of releases, runs, budgets and jobs, stored in the same database."""
