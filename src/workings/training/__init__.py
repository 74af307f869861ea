"""The training engine: one loop for every task, and the run folder it leaves behind."""
