"""`bellrock demo`: real programs under watch, each as a job."""
