"""Surface defects on photographs: dust, scratches, hairs, writing."""
