"""What flows: microdata with their schema, and partitions of them."""
