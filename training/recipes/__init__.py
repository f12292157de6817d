"""From a run spec to what the loop turns over: samples, model, optimizer, loss, export."""
