"""Risk measures: the gain of an attacker who holds the originals."""
