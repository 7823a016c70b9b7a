"""REST: strict JSON in, JSON or problem details out."""
