"""What every face does with jobs: run them until they rest, and leave what people ask of them on the bus."""
