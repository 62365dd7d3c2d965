"""Tables of which next to nothing is observed: only the stored entries are touched.

Nothing of the table's size is ever formed. Time and memory go with the number of stored
entries and with the factors of the low-rank part.
"""
