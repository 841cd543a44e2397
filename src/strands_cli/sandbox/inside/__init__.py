"""What runs in the zygote and its confined children: it may need no package, and no other room of ours."""
