"""What a release still risks: measures of what an attacker gains who holds the originals."""
