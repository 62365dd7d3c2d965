"""The passes over data that lie on a device, by the array API standard."""
