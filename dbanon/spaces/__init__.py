"""The geometry that methods work in: points, or costs of generalization."""
