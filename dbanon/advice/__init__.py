"""Advice: what columns may be, what singles rows out, and which release is worth its loss."""
