"""Names, numbers and limits that every layer shares."""
