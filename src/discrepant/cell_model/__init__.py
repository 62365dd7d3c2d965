"""Model of the cells of a table: the posterior of each one given its row."""
