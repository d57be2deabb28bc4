"""Chains: releases of the same persons, one after the other, safe together."""
