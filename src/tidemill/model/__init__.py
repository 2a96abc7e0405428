"""The vocabulary: names, numbers and limits that every floor shares."""
