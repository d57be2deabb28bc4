"""Data that all layers share: microdata with their schema, partitions, measures and counts."""
