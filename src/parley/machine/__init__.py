"""This machine: its clock, disk, programs and processes, and a job's readable files."""
