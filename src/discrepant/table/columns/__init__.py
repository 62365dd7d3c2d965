"""From any table to numeric columns and back: types, number formats, transforms."""
