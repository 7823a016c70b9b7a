"""Who runs tasks: claim, renew, run, drain, and the transitions that only need a timer.

It may import `domain`, `ports` and `agent_loop`. It never decides what a task does next, and never
writes a task by another way than its leases and the loop.
"""
