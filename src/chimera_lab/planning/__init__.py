"""What a run takes on other hardware: the work of a step is counted in small steps here, and its time estimated."""
