"""What methods see of the records: points, or costs of generalization."""
