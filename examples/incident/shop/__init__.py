"""A small simulated shop: what happens in it is a pure function of seed, start and changes."""
