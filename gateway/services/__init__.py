"""The services of `muniment.v1`, one file each: decode, one call, encode."""
