"""Chains: successive releases of the same persons that stay safe when combined."""
