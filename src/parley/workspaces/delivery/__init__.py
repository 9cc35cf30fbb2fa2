"""A job's result on its way to the user: reviewed, made a branch, merged, pushed, continued."""
