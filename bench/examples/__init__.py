"""Random problems of every kind, solved in plain numpy, with the mistakes to plant in them."""
