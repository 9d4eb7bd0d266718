"""A port by which programs in any language make a broker fail, move its time and look into it."""
