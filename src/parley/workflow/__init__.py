"""What happens inside PLAN and EXECUTE when the work needs several agents: plans, notes, verification, ownership."""
