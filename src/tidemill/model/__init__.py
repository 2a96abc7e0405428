"""Ids, names, configuration keys, error codes and limits that all layers share."""
