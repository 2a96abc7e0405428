"""Drives a store on a simulated disk and compares it with a model."""
