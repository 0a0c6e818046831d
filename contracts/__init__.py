"""What every process of eagle3-tui agrees on: records, wire types, the journals and the fold over them.

Imports nothing of ours. Readers decode leniently, writers encode strictly: a line that fits no declared shape
is counted and located as unreadable, never taken for a zero.
"""
