"""Publishing plane: bytes become canonical text, fragments and builds."""
