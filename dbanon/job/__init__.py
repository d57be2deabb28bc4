"""Jobs: requests for a release, their options, rules and guarantees."""
