"""From a packet to an answer: claims proposed by a provider, each checked against the packet before it leaves."""
