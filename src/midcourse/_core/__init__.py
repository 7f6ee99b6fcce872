"""The sans-IO core: identities, admission, dispositions and lifecycle, standard library only."""
