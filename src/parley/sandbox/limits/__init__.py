"""What a running cage may take: memory, disk, processes."""
