"""How much midcourse costs, as multiples of what any solution would cost: see `__main__`."""
