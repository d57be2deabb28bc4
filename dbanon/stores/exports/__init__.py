"""Files that are made of verified releases: Parquet and CSV, their places and what they tell."""
