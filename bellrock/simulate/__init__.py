"""Jobs that never ran: what each does is a small model, told from a seed; writers turn it into records, files or logs.

model.py says what a model is. Models come from kinds.py, one for each kind of job, which machine.py places on nodes; or from application.py, whose runs
schedule.py lets share a machine (description.py, traffic.py, contention.py, faults.py; virtual.py gives them out). expand.py turns a model into runs,
truth.py says what its profile must show, without looking at runs. to_*.py write, volume.py wires.
"""
