"""What the commands do, on top of everything else."""
