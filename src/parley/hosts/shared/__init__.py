"""What the coordinators of one home share besides its bus: jobs' files, repositories and sessions."""
