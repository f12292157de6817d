"""How the ranks of a run share a model: the layout, and the model laid out by it."""
