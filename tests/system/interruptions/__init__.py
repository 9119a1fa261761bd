"""Every kind of workload, interrupted in every way at any moment, in virtual time: one number names a schedule.

`kinds` says what is run, `deeds` what takes something away and gives it back, `laws` what must hold, `schedule` draws a
schedule from a number and plays it on a `scene`.
"""
