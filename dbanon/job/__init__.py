"""Jobs, which are requests for releases, with their options, rules and guarantees."""
