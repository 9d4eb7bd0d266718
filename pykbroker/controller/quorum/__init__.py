"""KRaft leader election as pure state: epochs, votes, leader."""
