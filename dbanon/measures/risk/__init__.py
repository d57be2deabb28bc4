"""Risk measures: what an attacker who holds the originals learns from a release."""
