"""The whole path on one machine, told while it happens: two bakeries, three people, and what each may see."""
