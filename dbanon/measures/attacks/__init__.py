"""What an attacker reaches with released rows: singling out, linking, inferring, membership."""
