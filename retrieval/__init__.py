"""From a question to a packet: plan, fuse, deduplicate, expand, pack, and the gate through which all reads pass."""
