"""The typed values that a job's rows hold beside their columns, each with one meaning and one codec."""
