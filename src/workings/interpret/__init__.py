"""Looking into a trained model: which words decided."""
