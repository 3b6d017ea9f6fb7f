"""Jobs that never ran: what each does is a small model (`kinds`), told from a seed; writers turn it into records, files or logs.

model.py says what a model is, kinds.py has one for each kind of job, machine.py places jobs on nodes, expand.py turns a model into runs,
truth.py says what its profile must show, without looking at runs. to_*.py write, volume.py wires.
"""
