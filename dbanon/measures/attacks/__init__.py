"""What an attacker reaches who holds released rows: singling out, linking, inferring, membership."""
