"""A driver that runs a store on a simulated disk, and a model with which the store is compared."""
