"""How methods measure distances between records: as points, or by costs of generalization."""
