"""Tasks: how data, model, loss, metric and prediction fit together."""
