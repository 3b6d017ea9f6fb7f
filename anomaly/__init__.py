"""What a job's records tell: phases, by the gap rule until there is a detector."""
