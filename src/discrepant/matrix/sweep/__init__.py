"""The only code that touches m×n data: where the rows lie, and what runs over them."""
