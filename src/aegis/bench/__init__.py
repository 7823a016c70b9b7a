"""Measurements that users run themselves, each as one JSON object a line.

It may import `bootstrap`, `domain` and `ports`, and enters by the front door. A timing is a
benchmark and never a test assertion; every figure says how it was measured.
"""
