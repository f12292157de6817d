"""The pure core: one function, `plan.plan`, decides what happens to every gang; nothing here does I/O."""
