"""What every face shows of jobs: pure reads of the bus."""
